// What is under the pointer, in words.

import { BROKEN } from "../data/broken";
import type { Tiles } from "../data/tiles";
import type { Names } from "./edges";
import { label } from "./plain";
import { SIDE, levelFor } from "./pyramid";
import type { Cell, Viewport } from "./viewport";
import { amount } from "./weight";

export interface Asked {
  readonly difference: boolean;
  readonly heads: number; // that are averaged
}

export function readout(tiles: Tiles, view: Viewport, density: number, cell: Cell, names: Names, { difference, heads }: Asked): string {
  const [down, across] = [levelFor(view.down, density), levelFor(view.across, density)];
  const [row, column] = [cell.query >> down, cell.key >> across];
  const tile = tiles.get({ down, across, row: Math.floor(row / SIDE), column: Math.floor(column / SIDE) });
  const who = part(names.queries, row, down);
  const whom = part(names.keys, column, across);
  if (!tile) return `${who} → ${whom}: on its way`;
  const index = (row % SIDE) * tile.columns + (column % SIDE);
  const [mass, peak] = [tile.mass[index], tile.peak[index]];
  if (Number.isNaN(mass)) return `${who} → ${whom}: may not look`;
  if (mass === BROKEN) return `${who} → ${whom}: not a number (${difference ? "in one of the two" : "scores of NaN or infinity"})`;
  const about = tile.approximate ? "about " : "";
  if (down + across === 0) return `${who} → ${whom}: ${difference ? "difference" : "weight"} ${about}${amount(mass)}`;
  if (difference) return `${who} → ${whom}: difference of mass ${about}${amount(mass)}`;
  return `${who} → ${whom}: mass ${about}${amount(mass)}, largest weight${heads > 1 ? " of any head" : ""} ${about}${amount(peak)}`;
}

function part(names: readonly string[], cell: number, level: number): string {
  const first = cell << level;
  const last = Math.min(names.length, (cell + 1) << level) - 1;
  return first === last ? `${first} “${label(names[first], 20)}”` : `${first}–${last}`;
}
