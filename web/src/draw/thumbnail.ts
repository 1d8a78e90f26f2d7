// A small map of one head.

import type { AtlasData } from "../data/source";
import type { Raster } from "./pen";
import type { Theme } from "./theme";
import { type Curve, largest, painted } from "./tone";

export function thumbnail(atlas: AtlasData, head: number, theme: Theme, curve: Curve): Raster {
  const { rows, columns } = atlas;
  const weights = atlas.maps.subarray(head * rows * columns, (head + 1) * rows * columns);
  const pixels = painted(weights, { top: largest(weights), curve }, theme.table, theme.hidden);
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
