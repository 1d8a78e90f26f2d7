// How weights become steps of a colour table: as parts of the darkest one, on a straight or a bent scale.

import { BROKEN } from "../data/broken";
import { STEPS } from "./colours";

export type Curve = "linear" | "root" | "log";
export const CURVES: readonly Curve[] = ["linear", "root", "log"];

export interface Tone {
  readonly top: number; // the weight that is darkest
  readonly curve: Curve;
}

const DECADES = 4; // of weights, from the palest to the darkest, on the log scale

/** A weight as a part, from 0 to 1, of the darkest. */
export function part(weight: number, tone: Tone): number {
  if (!(weight > 0) || !(tone.top > 0)) return 0;
  const share = Math.min(1, weight / tone.top);
  if (tone.curve === "root") return Math.sqrt(share);
  if (tone.curve === "log") return Math.max(0, 1 + Math.log10(share) / DECADES);
  return share;
}

/** What a weight that has no tone is painted with. */
export interface Other {
  readonly hidden: number; // NaN, a pair that may not look
  readonly broken: number; // +∞, a weight that is no number
}

export function painted(weights: Float32Array, tone: Tone, table: Uint32Array, other: Other): Uint32Array {
  const pixels = new Uint32Array(weights.length);
  const last = STEPS - 1;
  const most = tone.top > 0 ? 1 / tone.top : 0;
  for (let place = 0; place < weights.length; place++) {
    const weight = weights[place];
    if (weight !== weight || weight === BROKEN) {
      pixels[place] = weight === BROKEN ? other.broken : other.hidden;
      continue;
    }
    let share = weight * most;
    if (tone.curve !== "linear") share = part(weight, tone);
    pixels[place] = table[share >= 1 ? last : share > 0 ? (share * last + 0.5) | 0 : 0];
  }
  return pixels;
}

/** The pixels of differences, from −top to top. */
export function paintedDifference(
  differences: Float32Array,
  tone: Tone,
  table: Uint32Array,
  other: Other,
): Uint32Array {
  const pixels = new Uint32Array(differences.length);
  for (let place = 0; place < differences.length; place++) {
    const value = differences[place];
    if (value !== value || value === BROKEN) {
      pixels[place] = value === BROKEN ? other.broken : other.hidden;
      continue;
    }
    const share = Math.sign(value) * part(Math.abs(value), tone);
    pixels[place] = table[Math.round(((share + 1) / 2) * (STEPS - 1))];
  }
  return pixels;
}

/** The largest number that is one, whatever its sign; 0 when there is none. */
export function largest(values: ArrayLike<number>): number {
  let most = 0;
  for (let place = 0; place < values.length; place++) {
    const value = Math.abs(values[place]);
    if (value > most && value !== BROKEN) most = value;
  }
  return most;
}
