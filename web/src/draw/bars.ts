// Many numbers along an axis, drawn in few pixels.

import { type Axis, pixelOf, shownOn } from "./axis";

export interface Bar {
  readonly from: number; // pixels
  readonly past: number;
  readonly value: number;
}

/** One bar for each position on the screen, or for each pixel where positions are smaller: their mean, or the largest. */
export function bars(values: ArrayLike<number>, axis: Axis, density: number, take: "mean" | "most"): Bar[] {
  const [first, past] = shownOn(axis);
  const step = Math.max(1, Math.round(1 / (axis.scale * density)));
  const found: Bar[] = [];
  for (let start = first - (first % step); start < past; start += step) {
    const end = Math.min(start + step, values.length);
    const value = pooled(values, start, end, take);
    if (value === value) found.push({ from: pixelOf(axis, start), past: pixelOf(axis, end), value });
  }
  return found;
}

/** Over those that are numbers; NaN where none is. */
function pooled(values: ArrayLike<number>, start: number, end: number, take: "mean" | "most"): number {
  let [sum, most, count] = [0, -Infinity, 0];
  for (let place = start; place < end; place++) {
    const value = values[place];
    if (value !== value) continue;
    sum += value;
    count += 1;
    if (value > most) most = value;
  }
  return count === 0 ? NaN : take === "mean" ? sum / count : most;
}
