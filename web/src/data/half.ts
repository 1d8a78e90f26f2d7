// Half-precision numbers (IEEE 754 binary16), read through a table of all of them.

let table: Float32Array | null = null;

/** The number that sixteen bits stand for. */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 25) * (1024 + fraction) : sign * 2 ** -24 * fraction;
}

export function halvesToNumbers(bits: Uint16Array, scale = 1): Float32Array {
  table ??= Float32Array.from({ length: 65_536 }, (_, each) => halfToNumber(each));
  const numbers = new Float32Array(bits.length);
  for (let place = 0; place < bits.length; place++) numbers[place] = table[bits[place]] * scale;
  return numbers;
}
