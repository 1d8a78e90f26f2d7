// Weights that are not numbers, because a score of their query is NaN or infinite. Packs store them as +∞, since NaN
// already stands for a masked pair; sums, means and maxima propagate +∞.

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
