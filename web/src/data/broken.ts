// Weights that are no numbers: the scores of their query hold a NaN or an infinity. They are told from weights that are
// hidden (NaN, as everywhere in packs) by +∞, which no weight can be; sums, means and maxima keep it.

export const BROKEN = Infinity;

export function isBroken(values: Float32Array): boolean {
  return values.includes(BROKEN);
}

/** A number of the manifest: JSON has no NaN, so that one that is none is its name. */
export type Told = number | "NaN" | "Infinity" | "-Infinity";

export function numberOf(told: Told): number {
  return typeof told === "number" ? told : told === "-Infinity" ? -Infinity : BROKEN;
}

/** What one number has more than another. */
export function difference(more: number, less: number): number {
  return more === BROKEN || less === BROKEN ? (more !== more && less !== less ? NaN : BROKEN) : more - less;
}
