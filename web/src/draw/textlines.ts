// Lines between two columns of words: who looks at whom.

import { BROKEN } from "../data/broken";
import type { Pen, Point } from "./pen";

export interface Line {
  readonly from: number; // a query
  readonly to: number; // a key
  readonly weight: number;
  readonly hue: number; // of the head, where several are told apart
}

export const FAINTEST = 0.02; // lighter lines are not drawn

/** The lines of a matrix of weights, the heaviest last, so that they lie on top. */
export function linesOf(
  weights: Float32Array,
  rows: number,
  columns: number,
  only: { query?: number | null; key?: number | null } = {},
  hue = 0,
): Line[] {
  const found: Line[] = [];
  for (let from = 0; from < rows; from++) {
    if (only.query != null && only.query !== from) continue;
    for (let to = 0; to < columns; to++) {
      if (only.key != null && only.key !== to) continue;
      const weight = weights[from * columns + to];
      if (weight >= FAINTEST && weight !== BROKEN) found.push({ from, to, weight, hue });
    }
  }
  return found.sort((one, other) => one.weight - other.weight);
}

export function drawLines(
  pen: Pen,
  lines: readonly Line[],
  start: (query: number) => Point,
  end: (key: number) => Point,
  ink: (hue: number, weight: number) => string,
): void {
  for (const { from, to, weight, hue } of lines) {
    pen.curve(start(from), end(to), ink(hue, weight), 0.75 + 3.25 * weight);
  }
}
