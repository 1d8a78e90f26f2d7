// How wide a text is when it is drawn, so that labels get the room they need and are cut where it ends.

import { FACE } from "./pen";
import { label } from "./plain";

const context = typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");
const ROUGHLY = 0.62; // of the size, a letter, where nothing can be measured
const EM = 100;
const known = new Map<string, number>();
const MAX_KNOWN = 20_000;

/** In pixels, in letters of this size; as wide as in bold, so that marking a label never cuts it. */
export function widthOf(text: string, size: number): number {
  let found = known.get(text);
  if (found === undefined) {
    if (known.size >= MAX_KNOWN) known.clear();
    found = ROUGHLY * [...text].length;
    if (context) {
      context.font = `600 ${EM}px ${FACE}`;
      found = context.measureText(text).width / EM;
    }
    known.set(text, found);
  }
  return found * size;
}

/** The label of a token, with as many letters as fit. */
export function fitting(token: string, size: number, room: number, most = 24): string {
  for (let limit = most; limit > 2; limit--) {
    const shown = label(token, limit);
    if (widthOf(shown, size) <= room) return shown;
    limit = Math.min(limit, [...shown].length);
  }
  return label(token, 2);
}
