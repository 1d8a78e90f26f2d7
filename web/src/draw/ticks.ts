// Where positions are written along an edge: at round numbers, no denser than can be read.

const ROUND = [1, 2, 5];

/** The smallest of 1, 2, 5, 10, 20 … that keeps ticks at least `apart` pixels from each other. */
export function tickStep(scale: number, apart: number): number {
  for (let decade = 1; ; decade *= 10) {
    for (const digit of ROUND) {
      if (digit * decade * scale >= apart) return digit * decade;
    }
  }
}

export function ticks(first: number, past: number, scale: number, apart: number): number[] {
  const step = tickStep(scale, apart);
  const found: number[] = [];
  for (let at = Math.ceil(first / step) * step; at < past; at += step) found.push(at);
  return found;
}
