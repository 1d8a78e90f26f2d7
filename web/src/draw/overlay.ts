// A picture lit where a model looks: as it is where the weight is largest, dark and grey where there is none. What is
// dark by itself cannot be darkened: it is made grey, and the weights are laid over it in colour.

import { BROKEN } from "../data/broken";
import type { Picture } from "../data/source";
import { STEPS } from "./colours";

const NIGHT = [34, 29, 45];
const VEIL = 0.82; // how far what is not looked at goes dark
const OVER = 0.62; // how strong colours are that are laid over
const DARK = 80; // the mean of a picture below which it is dark by itself

export function isDark({ pixels }: Picture): boolean {
  let sum = 0;
  for (const value of pixels) sum += value;
  return sum < DARK * pixels.length;
}

export interface Grid {
  readonly rows: number;
  readonly columns: number;
}

export interface Lighting {
  readonly top: number; // the weight that is fully lit
  readonly smooth: boolean;
  readonly table: Uint32Array | null; // of colours; null: by light and dark
}

/** The pixels (red, green, blue, opaque) of a picture under weights of its patches; NaN is not looked at. */
export function lit(
  picture: Picture,
  weights: ArrayLike<number> | null,
  { rows, columns }: Grid,
  { top, smooth, table }: Lighting,
): Uint8ClampedArray<ArrayBuffer> {
  const { width, height, pixels } = picture;
  const out = new Uint8ClampedArray(4 * width * height);
  const colours = table && new Uint8Array(table.buffer);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const from = 3 * (y * width + x);
      const to = 4 * (y * width + x);
      const level = weights ? spread(weights, rows, columns, ((y + 0.5) * rows) / height, ((x + 0.5) * columns) / width, smooth) / top : 1;
      const share = Math.min(1, Math.max(0, level || 0));
      const veil = VEIL * (1 - share);
      const grey = 0.299 * pixels[from] + 0.587 * pixels[from + 1] + 0.114 * pixels[from + 2];
      for (let channel = 0; channel < 3; channel++) {
        if (colours && weights) {
          const colour = colours[4 * Math.round(share * (STEPS - 1)) + channel];
          out[to + channel] = grey * (1 - OVER) + colour * OVER;
          continue;
        }
        const night = 0.25 * grey + 0.75 * NIGHT[channel];
        out[to + channel] = pixels[from + channel] * (1 - veil) + night * veil;
      }
      out[to + 3] = 255;
    }
  }
  return out;
}

/** The weight at a place, in patches: that of its patch, or between those around it. */
function spread(weights: ArrayLike<number>, rows: number, columns: number, y: number, x: number, smooth: boolean): number {
  const at = (row: number, column: number) => {
    const place = Math.min(rows - 1, Math.max(0, row)) * columns + Math.min(columns - 1, Math.max(0, column));
    return weights[place] < BROKEN ? weights[place] : 0; // what is hidden, or no number, is not lit
  };
  if (!smooth) return at(Math.floor(y), Math.floor(x));
  const [row, column] = [Math.floor(y - 0.5), Math.floor(x - 0.5)];
  const [down, right] = [y - 0.5 - row, x - 0.5 - column];
  const above = at(row, column) * (1 - right) + at(row, column + 1) * right;
  const below = at(row + 1, column) * (1 - right) + at(row + 1, column + 1) * right;
  return above * (1 - down) + below * down;
}

/** A picture made larger, so that patches of few pixels can be lit smoothly. */
export function enlarged(picture: Picture, least: number): Picture {
  const times = Math.ceil(least / Math.max(picture.width, picture.height));
  if (times <= 1) return picture;
  const [width, height] = [picture.width * times, picture.height * times];
  const pixels = new Uint8Array(3 * width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const from = 3 * (Math.floor(y / times) * picture.width + Math.floor(x / times));
      const to = 3 * (y * width + x);
      pixels[to] = picture.pixels[from];
      pixels[to + 1] = picture.pixels[from + 1];
      pixels[to + 2] = picture.pixels[from + 2];
    }
  }
  return { width, height, pixels };
}
