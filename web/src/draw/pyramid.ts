// The pyramid of a map. At level z a cell covers 2^z positions along an axis; each axis has a level of its own, since
// ten words may look at thousands of tokens. A tile holds up to SIDE × SIDE cells.

import { type Axis, shownOn } from "./axis";
import type { Extent, Viewport } from "./viewport";

export const SIDE = 256;

export interface TilePlace {
  readonly down: number; // levels
  readonly across: number;
  readonly row: number;
  readonly column: number;
}

/** The level at which a whole axis is in one tile. */
export function highest(size: number): number {
  return Math.max(0, Math.ceil(Math.log2(size / SIDE)));
}

/** The finest level that has no more cells than the screen has pixels. */
export function levelFor(axis: Axis, density: number): number {
  const wanted = Math.ceil(-Math.log2(axis.scale * density) - 1e-9);
  return Math.min(Math.max(0, wanted), highest(axis.size));
}

/** How many cells a tile has: those at the far edges have fewer. */
export function tileSize(place: TilePlace, extent: Extent): { rows: number; columns: number } {
  const left = (size: number, level: number, index: number) => Math.min(SIDE, Math.ceil(size / 2 ** level) - index * SIDE);
  return {
    rows: left(extent.queries, place.down, place.row),
    columns: left(extent.keys, place.across, place.column),
  };
}

/** The tiles that are on the screen, those nearest its middle first. */
export function tilesOnScreen(view: Viewport, density: number): TilePlace[] {
  const [down, across] = [levelFor(view.down, density), levelFor(view.across, density)];
  const [rows, columns] = [indices(view.down, down), indices(view.across, across)];
  const found: TilePlace[] = [];
  for (const row of rows) for (const column of columns) found.push({ down, across, row, column });
  const middle = [(rows[0] + rows[rows.length - 1]) / 2, (columns[0] + columns[columns.length - 1]) / 2];
  const away = (place: TilePlace) => Math.hypot(place.row - middle[0], place.column - middle[1]);
  return found.sort((one, other) => away(one) - away(other));
}

function indices(axis: Axis, level: number): number[] {
  const span = SIDE * 2 ** level;
  const [first, past] = shownOn(axis);
  const found: number[] = [];
  for (let index = Math.floor(first / span); index * span < past; index++) found.push(index);
  return found;
}

/** The tiles further up that cover this one, the nearest first. */
export function ancestors(place: TilePlace, extent: Extent): TilePlace[] {
  const top = { down: highest(extent.queries), across: highest(extent.keys) };
  const found: TilePlace[] = [];
  let { down, across, row, column } = place;
  while (down < top.down || across < top.across) {
    if (down < top.down) [down, row] = [down + 1, row >> 1];
    if (across < top.across) [across, column] = [across + 1, column >> 1];
    found.push({ down, across, row, column });
  }
  return found;
}

export function placeName(place: TilePlace): string {
  return `${place.down}/${place.across}/${place.row}/${place.column}`;
}
