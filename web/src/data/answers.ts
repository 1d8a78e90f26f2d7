// Packs read as what they answer.

import type { Pack } from "./pack";
import { numbers } from "./pack";
import type { AtlasData, HeadRows, Margins, Picture, TileData } from "./source";

function shapeOf(pack: Pack, name: string, axes: number): readonly number[] {
  const found = pack.arrays.get(name);
  if (!found || found.shape.length !== axes) throw new Error(`the answer has no ${name} of ${axes} axes`);
  return found.shape;
}

const approximate = (pack: Pack) => pack.header.approximate === true;

export function asTile(pack: Pack): TileData {
  const [rows, columns] = shapeOf(pack, "mass", 2);
  return { rows, columns, mass: numbers(pack, "mass"), peak: numbers(pack, "peak"), approximate: approximate(pack) };
}

export function asMargins(pack: Pack): Margins {
  return {
    entropy: numbers(pack, "entropy"),
    received: numbers(pack, "received"),
    approximate: approximate(pack),
  };
}

export function asHeadRows(pack: Pack): HeadRows {
  const [heads, length] = shapeOf(pack, "weights", 2);
  return { heads, length, weights: numbers(pack, "weights"), approximate: approximate(pack) };
}

export function asAtlas(pack: Pack): AtlasData {
  const [heads, rows, columns] = shapeOf(pack, "maps", 3);
  const names = (pack.header.measures ?? []) as string[];
  const measures = new Map(names.map((name) => [name, numbers(pack, name)]));
  return { heads, rows, columns, maps: numbers(pack, "maps"), measures, approximate: approximate(pack) };
}

export function asPicture(pack: Pack): Picture {
  const [height, width] = shapeOf(pack, "pixels", 3);
  return { height, width, pixels: Uint8Array.from(numbers(pack, "pixels")) };
}
