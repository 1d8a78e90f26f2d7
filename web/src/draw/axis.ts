// One axis of a map on the screen: the position at its beginning and how many pixels a position takes.
// An axis is a value: every gesture makes a new one.

export interface Axis {
  readonly start: number; // in positions
  readonly scale: number; // CSS pixels to a position
  readonly pixels: number; // CSS pixels it is long
  readonly size: number; // positions there are
  readonly least: number; // the scale at which all of it is shown
}

export const CLOSEST = 80; // pixels to a position
export const LARGEST_WHOLE = 54; // few positions are not blown up further when all are shown

export function wholeAxis(size: number, pixels: number, scale: number): Axis {
  return { start: 0, scale, pixels, size, least: scale };
}

/** Not further out than all of it, and never past an end. */
export function heldAxis(axis: Axis): Axis {
  const scale = Math.min(Math.max(axis.scale, axis.least), Math.max(CLOSEST, axis.least));
  const most = Math.max(0, axis.size - axis.pixels / scale);
  return { ...axis, scale, start: Math.min(Math.max(0, axis.start), most) };
}

export function movedAxis(axis: Axis, pixels: number): Axis {
  return heldAxis({ ...axis, start: axis.start + pixels / axis.scale });
}

/** Zoomed by a factor, so that what is at a pixel stays there. */
export function zoomedAxis(axis: Axis, factor: number, at: number): Axis {
  const scale = heldAxis({ ...axis, scale: axis.scale * factor }).scale;
  return heldAxis({ ...axis, scale, start: axis.start + at / axis.scale - at / scale });
}

/** Moved as little as it takes for a position to be on the screen. */
export function revealingAxis(axis: Axis, position: number): Axis {
  const shown = axis.pixels / axis.scale;
  return heldAxis({ ...axis, start: Math.max(Math.min(axis.start, position), position + 1 - shown) });
}

/** A place (in positions) in the middle of the screen. */
export function centredAxis(axis: Axis, middle: number, scale: number): Axis {
  const allowed = heldAxis({ ...axis, scale }).scale;
  return heldAxis({ ...axis, scale: allowed, start: middle - axis.pixels / (2 * allowed) });
}

export function middleOf(axis: Axis): number {
  return axis.start + Math.min(axis.size, axis.pixels / axis.scale) / 2;
}

/** The position at a pixel, or null past the ends. */
export function positionAt(axis: Axis, pixel: number): number | null {
  const position = Math.floor(axis.start + pixel / axis.scale);
  return pixel >= 0 && pixel <= axis.pixels && position >= 0 && position < axis.size ? position : null;
}

/** Where a position begins, in pixels. */
export function pixelOf(axis: Axis, position: number): number {
  return (position - axis.start) * axis.scale;
}

/** The positions on the screen: [first, past the last). */
export function shownOn(axis: Axis): [number, number] {
  const past = Math.ceil(axis.start + axis.pixels / axis.scale - 1e-9);
  return [Math.max(0, Math.floor(axis.start)), Math.min(axis.size, past)];
}
