// Rows of weights of several heads, made one; and what is heaviest in a row.

import { BROKEN } from "../data/broken";
import type { HeadRows } from "../data/source";

/** The mean over some heads; NaN where none of them may look. */
export function blended({ length, weights }: HeadRows, heads: readonly number[]): Float32Array {
  const mean = new Float32Array(length).fill(NaN);
  for (const head of heads) {
    for (let place = 0; place < length; place++) {
      const weight = weights[head * length + place];
      if (weight !== weight) continue;
      mean[place] = (mean[place] === mean[place] ? mean[place] : 0) + weight / heads.length;
    }
  }
  return mean;
}

export function rowOfHead({ length, weights }: HeadRows, head: number): Float32Array {
  return weights.subarray(head * length, (head + 1) * length);
}

/** The places of the largest numbers, the largest first; of 0, of what may not be looked at and of no number there is none. */
export function heaviest(row: Float32Array, count: number): { place: number; weight: number }[] {
  const found: { place: number; weight: number }[] = [];
  for (let place = 0; place < row.length; place++) {
    const weight = row[place];
    if (!(weight > 0) || weight === BROKEN || (found.length === count && weight <= found[count - 1].weight)) continue;
    let at = found.length;
    while (at > 0 && found[at - 1].weight < weight) at--;
    found.splice(at, 0, { place, weight });
    if (found.length > count) found.pop();
  }
  return found;
}
