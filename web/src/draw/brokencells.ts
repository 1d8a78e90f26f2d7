// Cells that are no numbers are hatched, so that no colour has to be known to see them.

import { BROKEN } from "../data/broken";
import type { Box, Pen } from "./pen";
import type { Theme } from "./theme";

export const NOT_A_NUMBER = "NaN: not a number";

/** Cells of a table, row by row. */
export interface Cells {
  readonly values: Float32Array;
  readonly rows: number;
  readonly columns: number;
}

const runs = new WeakMap<Float32Array, readonly Box[]>();

/** Where cells are no numbers: boxes in cells, each one cell high and as wide as such cells follow each other. */
export function brokenRuns({ values, rows, columns }: Cells): readonly Box[] {
  const known = runs.get(values);
  if (known) return known;
  const found: Box[] = [];
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const from = x;
      while (x < columns && values[y * columns + x] === BROKEN) x++;
      if (x > from) found.push({ x: from, y, width: x - from, height: 1 });
    }
  }
  runs.set(values, found);
  return found;
}

/** Hatch what is broken of the cells of `part`, which lies on the box `onto`. */
export function hatchBroken(pen: Pen, cells: Cells, part: Box, onto: Box, theme: Theme): boolean {
  const [across, down] = [onto.width / part.width, onto.height / part.height];
  let any = false;
  for (const run of brokenRuns(cells)) {
    const [left, top] = [Math.max(run.x, part.x), Math.max(run.y, part.y)];
    const right = Math.min(run.x + run.width, part.x + part.width);
    const bottom = Math.min(run.y + run.height, part.y + part.height);
    if (right <= left || bottom <= top) continue;
    any = true;
    pen.hatch({ x: onto.x + (left - part.x) * across, y: onto.y + (top - part.y) * down, width: (right - left) * across, height: (bottom - top) * down }, theme.hatch);
  }
  return any;
}

/** A hatched field and what it means, its right end at x. */
export function drawBrokenLegend(pen: Pen, x: number, y: number, theme: Theme): void {
  const box = { x: x - 130, y: y - 6, width: 18, height: 12 };
  pen.fill(box, theme.brokenInk);
  pen.hatch(box, theme.hatch);
  pen.outline(box, theme.line, 1);
  pen.text(box.x + 24, y, NOT_A_NUMBER, { ink: theme.ink, size: 11 });
}
