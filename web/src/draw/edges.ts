// What stands along the edges of a map: its tokens where there is room for them, round positions where there is not.

import { type Axis, pixelOf, shownOn } from "./axis";
import type { Frame } from "./frame";
import type { Pen } from "./pen";
import { fitting, widthOf } from "./measure";
import { label } from "./plain";
import type { Theme } from "./theme";
import { ticks } from "./ticks";

export interface Names {
  readonly queries: readonly string[];
  readonly keys: readonly string[];
  readonly queryTitle: string;
  readonly keyTitle: string;
}

export const READABLE = 9.5; // pixels to a token, at least
const BELOW_TITLES = 16; // pixels that the titles of the axes take
const SLANTED = 17; // from here on labels above the map lean, below they stand upright
export const LARGEST = 14; // size of a label

export function labelled(axis: Axis): boolean {
  return axis.scale >= READABLE;
}

/** Room that the labels of a map want: to the left of it, and above. */
export function roomFor(names: Names): { left: number; top: number } {
  const widest = (texts: readonly string[]) => texts.slice(0, 500).reduce((most, text) => Math.max(most, widthOf(label(text), LARGEST)), 0);
  return {
    left: Math.min(150, Math.max(62, 12 + widest(names.queries))),
    top: Math.min(112, Math.max(44, 12 + BELOW_TITLES + widest(names.keys))), // they may stand upright
  };
}

function size(axis: Axis): number {
  return Math.min(LARGEST, Math.max(9, axis.scale * 0.85));
}

/** The labels of queries, to the left. `marked` is written in the colour of the mark. */
export function drawRowLabels(pen: Pen, frame: Frame, axis: Axis, names: Names, look: Theme, marked: number | null): void {
  const { map } = frame;
  const right = map.x - 7;
  pen.within({ x: 0, y: map.y - 6, width: map.x, height: map.height + 12 }, () => {
    if (labelled(axis)) {
      const [first, past] = shownOn(axis);
      for (let place = first; place < past; place++) {
        const y = map.y + pixelOf(axis, place + 0.5);
        if (y < map.y || y > map.y + map.height) continue;
        const ink = place === marked ? look.mark : look.ink;
        const text = fitting(names.queries[place], size(axis), right - 2);
        pen.text(right, y, text, { ink, size: size(axis), align: "right", bold: place === marked });
      }
      return;
    }
    for (const place of ticks(...shownOn(axis), axis.scale, 34)) {
      const y = map.y + pixelOf(axis, place);
      pen.line([[map.x - 4, y], [map.x, y]], look.faint, 1);
      pen.text(right, y, place.toLocaleString("en-GB"), { ink: look.faint, size: 11, align: "right" });
    }
  });
}

/** The labels of keys, above. */
export function drawColumnLabels(pen: Pen, frame: Frame, axis: Axis, names: Names, look: Theme, marked: number | null): void {
  const { map } = frame;
  const bottom = map.y - 7;
  pen.within({ x: map.x - 6, y: 0, width: frame.width - map.x, height: map.y }, () => {
    if (labelled(axis)) {
      const [first, past] = shownOn(axis);
      const leaning = axis.scale >= SLANTED;
      const room = (bottom - BELOW_TITLES) * (leaning ? Math.SQRT2 : 1);
      for (let place = first; place < past; place++) {
        const x = map.x + pixelOf(axis, place + 0.5);
        if (x < map.x || x > map.x + map.width) continue;
        const ink = place === marked ? look.mark : look.ink;
        const turn = leaning ? -45 : -90;
        pen.text(x, bottom, fitting(names.keys[place], size(axis), room), { ink, size: size(axis), turn, bold: place === marked });
      }
      return;
    }
    for (const place of ticks(...shownOn(axis), axis.scale, 64)) {
      const x = map.x + pixelOf(axis, place);
      pen.line([[x, map.y - 4], [x, map.y]], look.faint, 1);
      pen.text(x, map.y - 13, place.toLocaleString("en-GB"), { ink: look.faint, size: 11, align: "center" });
    }
  });
}

export function drawTitles(pen: Pen, frame: Frame, names: Names, look: Theme): void {
  const style = { ink: look.faint, size: 11 };
  pen.text(frame.map.x, 9, `${label(names.keyTitle)} →`, style);
  pen.text(frame.map.x - 7, 9, `↓ ${label(names.queryTitle)}`, { ...style, align: "right" });
}
