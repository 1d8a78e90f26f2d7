// Tiles as images, painted once for each tone and theme.

import type { TileData } from "../data/source";
import type { Raster } from "./pen";
import type { Theme } from "./theme";
import { type Tone, largest, painted, paintedDifference } from "./tone";

export type Statistic = "mass" | "peak";

export interface Look {
  readonly statistic: Statistic;
  readonly tone: Tone;
  readonly theme: Theme;
  readonly difference: boolean;
}

const images = new WeakMap<TileData, { name: string; image: Raster }>();
const tops = new WeakMap<Float32Array, number>();

export function tileImage(tile: TileData, look: Look): Raster {
  const { statistic, tone, theme, difference } = look;
  const name = [statistic, tone.top, tone.curve, theme.ramp, theme.dark, difference].join(" ");
  const held = images.get(tile);
  if (held?.name === name) return held.image;
  const image = held?.image ?? new OffscreenCanvas(tile.columns, tile.rows);
  const pixels = difference
    ? paintedDifference(tile[statistic], tone, theme.difference, theme)
    : painted(tile[statistic], tone, theme.table, theme);
  const bytes = new Uint8ClampedArray(pixels.buffer as ArrayBuffer);
  (image.getContext("2d") as OffscreenCanvasRenderingContext2D).putImageData(
    new ImageData(bytes, tile.columns, tile.rows),
    0,
    0,
  );
  images.set(tile, { name, image });
  return image;
}

/** The largest number of a tile, found once. */
export function tileTop(tile: TileData, statistic: Statistic): number {
  const values = tile[statistic];
  if (!tops.has(values)) tops.set(values, largest(values));
  return tops.get(values)!;
}

/** 1, 2 or 5 times a power of ten, at least this large: colours stay as they are while the map is moved a little. */
export function roundTop(value: number): number {
  if (!(value > 0)) return 1;
  const decade = 10 ** Math.floor(Math.log10(value));
  const digit = [1, 2, 5, 10].find((each) => each * decade >= value * 0.999)!;
  return Number((digit * decade).toPrecision(1));
}
