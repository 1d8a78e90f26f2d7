// Which part of a map is on the screen: keys go across, queries go down.

import {
  type Axis,
  LARGEST_WHOLE,
  centredAxis,
  heldAxis,
  middleOf,
  movedAxis,
  positionAt,
  revealingAxis,
  wholeAxis,
  zoomedAxis,
} from "./axis";

export interface Extent {
  readonly queries: number;
  readonly keys: number;
}

export interface Viewport {
  readonly across: Axis;
  readonly down: Axis;
}

export interface Cell {
  readonly query: number;
  readonly key: number;
}

/** A place that can be found again on a screen of another size. */
export interface Spot {
  readonly query: number;
  readonly key: number;
  readonly zoom: number; // how many times closer than the whole map
}

const THINNEST = 0.25; // of the screen: a map that would be thinner is stretched along that axis

/** All of the map. Cells are square, unless there are many more positions one way than the other. */
export function whole(extent: Extent, width: number, height: number): Viewport {
  const scale = Math.min(LARGEST_WHOLE, width / extent.keys, height / extent.queries);
  const stretched = (size: number, pixels: number) =>
    size * scale < THINNEST * pixels ? Math.max(scale, Math.min(LARGEST_WHOLE, (THINNEST * pixels) / size)) : scale;
  return {
    across: wholeAxis(extent.keys, width, stretched(extent.keys, width)),
    down: wholeAxis(extent.queries, height, stretched(extent.queries, height)),
  };
}

export function moved(view: Viewport, right: number, down: number): Viewport {
  return { across: movedAxis(view.across, right), down: movedAxis(view.down, down) };
}

export function zoomed(view: Viewport, factor: number, x: number, y: number): Viewport {
  return { across: zoomedAxis(view.across, factor, x), down: zoomedAxis(view.down, factor, y) };
}

export function revealing(view: Viewport, cell: Cell): Viewport {
  return { across: revealingAxis(view.across, cell.key), down: revealingAxis(view.down, cell.query) };
}

/** A cell in the middle, with that many pixels to a token. */
export function centred(view: Viewport, cell: Cell, scale: number): Viewport {
  return {
    across: centredAxis(view.across, cell.key + 0.5, scale),
    down: centredAxis(view.down, cell.query + 0.5, scale),
  };
}

/** The same place on a screen of another size. */
export function resized(view: Viewport, width: number, height: number): Viewport {
  return at(whole({ queries: view.down.size, keys: view.across.size }, width, height), spotOf(view));
}

export function spotOf(view: Viewport): Spot {
  const zoom = Math.max(view.across.scale / view.across.least, view.down.scale / view.down.least);
  return { query: middleOf(view.down), key: middleOf(view.across), zoom };
}

export function at(all: Viewport, spot: Spot): Viewport {
  return {
    across: centredAxis(all.across, spot.key, all.across.least * spot.zoom),
    down: centredAxis(all.down, spot.query, all.down.least * spot.zoom),
  };
}

export function isWhole(view: Viewport): boolean {
  const near = (axis: Axis) => heldAxis(axis).scale <= axis.least * 1.001;
  return near(view.across) && near(view.down);
}

/** The cell under a point, or null outside the map. */
export function cellAt(view: Viewport, x: number, y: number): Cell | null {
  const key = positionAt(view.across, x);
  const query = positionAt(view.down, y);
  return key === null || query === null ? null : { query, key };
}
