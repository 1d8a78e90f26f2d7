// A small map of one head.

import type { AtlasData } from "../data/source";
import { type Cells, brokenRuns, hatchBroken } from "./brokencells";
import type { Box, Pen, Raster } from "./pen";
import type { Theme } from "./theme";
import { type Curve, largest, painted } from "./tone";

/** The cells of one head. */
export function cellsOf(atlas: AtlasData, head: number): Cells {
  if (!cells.has(atlas)) {
    const { rows, columns, maps } = atlas;
    const size = rows * columns;
    cells.set(atlas, Array.from({ length: atlas.heads }, (_, each) => ({ values: maps.subarray(each * size, (each + 1) * size), rows, columns })));
  }
  return cells.get(atlas)![head];
}

const cells = new WeakMap<AtlasData, readonly Cells[]>();

export function drawThumbnail(pen: Pen, atlas: AtlasData, head: number, onto: Box, theme: Theme, curve: Curve, smooth: boolean): void {
  const own = cellsOf(atlas, head);
  const part = { x: 0, y: 0, width: atlas.columns, height: atlas.rows };
  pen.image(thumbnail(atlas, head, theme, curve), part, onto, smooth && !brokenRuns(own).length);
  hatchBroken(pen, own, part, onto, theme);
}

function thumbnail(atlas: AtlasData, head: number, theme: Theme, curve: Curve): Raster {
  const { rows, columns } = atlas;
  const weights = cellsOf(atlas, head).values;
  const pixels = painted(weights, { top: largest(weights), curve }, theme.table, theme);
  const image = new OffscreenCanvas(columns, rows);
  image
    .getContext("2d")!
    .putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer as ArrayBuffer), columns, rows), 0, 0);
  return image;
}

/** The size of a small map in a square: its own shape, unless it would be too thin to see. */
export function thumbnailSize({ rows, columns }: Pick<AtlasData, "rows" | "columns">, side: number): [number, number] {
  const most = Math.max(rows, columns);
  return [Math.max(side / 4, (side * columns) / most), Math.max(side / 4, (side * rows) / most)];
}
