// A lit picture with its patches: where they lie, and which is chosen.

import type { PictureSide } from "../data/manifest";
import type { Picture } from "../data/source";
import { brokenRuns, hatchBroken } from "./brokencells";
import { lit } from "./overlay";
import type { Box, Pen } from "./pen";
import { type Theme, theme as themed } from "./theme";
import { largest } from "./tone";

export interface Patches {
  readonly side: PictureSide;
  readonly picture: Picture;
  readonly weights: Float32Array | null; // of all positions, special ones first
  readonly box: Box;
  readonly smooth: boolean;
  readonly coloured: boolean;
  readonly chosen: number | null; // positions
  readonly hover: number | null;
  readonly theme: Theme;
}

/** The largest box of the shape of a picture. */
export function fitted(picture: { width: number; height: number }, width: number, height: number): Box {
  const scale = Math.min(width / picture.width, height / picture.height);
  const [wide, tall] = [picture.width * scale, picture.height * scale];
  return { x: (width - wide) / 2, y: 0, width: wide, height: tall };
}

export function patchBox({ grid: [rows, columns], special }: PictureSide, box: Box, place: number): Box | null {
  const patch = place - special.length;
  if (patch < 0 || patch >= rows * columns) return null;
  const [width, height] = [box.width / columns, box.height / rows];
  return { x: box.x + (patch % columns) * width, y: box.y + Math.floor(patch / columns) * height, width, height };
}

/** The position of the patch at a point. */
export function patchAt({ grid: [rows, columns], special }: PictureSide, box: Box, x: number, y: number): number | null {
  const [column, row] = [Math.floor(((x - box.x) / box.width) * columns), Math.floor(((y - box.y) / box.height) * rows)];
  const inside = column >= 0 && row >= 0 && column < columns && row < rows;
  return inside ? special.length + row * columns + column : null;
}

export function drawPatches(pen: Pen, { side, picture, weights, box, smooth, coloured, chosen, hover, theme }: Patches): void {
  const [rows, columns] = side.grid;
  const own = weights?.subarray(side.special.length) ?? null;
  const top = (own && largest(own)) || 1;
  // A dark picture is lit as on a dark page: what is looked at is bright.
  const image = new OffscreenCanvas(picture.width, picture.height);
  const pixels = new ImageData(lit(picture, own, { rows, columns }, { top, smooth, table: coloured ? themed(true, theme.ramp).table : null }), picture.width, picture.height);
  image.getContext("2d")!.putImageData(pixels, 0, 0);
  pen.image(image, { x: 0, y: 0, width: picture.width, height: picture.height }, box, false);
  if (own) {
    const cells = { values: own, rows, columns };
    for (const run of brokenRuns(cells)) {
      const [wide, tall] = [box.width / columns, box.height / rows];
      pen.fill({ x: box.x + run.x * wide, y: box.y + run.y * tall, width: run.width * wide, height: tall }, theme.brokenInk);
    }
    hatchBroken(pen, cells, { x: 0, y: 0, width: columns, height: rows }, box, theme);
  }
  for (const [place, thick] of [[hover, 1.5], [chosen, 3]] as const) {
    const patch = place === null ? null : patchBox(side, box, place);
    if (patch) pen.outline(patch, theme.mark, thick);
  }
}
