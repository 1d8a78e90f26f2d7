// Packs as the library writes them, for tests.

export interface Given {
  name: string;
  dtype: "u8" | "u16" | "i32" | "f16" | "f32";
  shape: number[];
  bytes: Uint8Array;
  scale?: number;
  planes?: boolean;
}

export function bytesOf(values: Uint8Array | Uint16Array | Float32Array | Int32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

export function pack(arrays: Given[], further: Record<string, unknown> = {}): ArrayBuffer {
  const up = (length: number) => 8 * Math.ceil(length / 8);
  let header = new Uint8Array();
  let places: number[] = arrays.map(() => 0);
  for (let round = 0; round < 4; round++) {
    const told = arrays.map(({ bytes: _, ...entry }, index) => ({ ...entry, at: places[index] }));
    const text = JSON.stringify({ arrays: told, ...further });
    header = new TextEncoder().encode(text.padEnd(up(8 + text.length) - 8, " "));
    let at = 8 + header.length;
    places = arrays.map(({ bytes }) => {
      const here = at;
      at = up(at + bytes.length);
      return here;
    });
  }
  const whole = new Uint8Array(up((places.at(-1) ?? 8 + header.length) + (arrays.at(-1)?.bytes.length ?? 0)));
  whole.set(new TextEncoder().encode("RGD1"));
  new DataView(whole.buffer).setUint32(4, header.length, true);
  whole.set(header, 8);
  arrays.forEach(({ bytes }, index) => whole.set(bytes, places[index]));
  return whole.buffer;
}

/** Half-precision bits of numbers, rounded to the nearest; small and ordinary numbers only. */
export function halves(values: number[]): Uint16Array {
  return Uint16Array.from(values, (value) => {
    if (Number.isNaN(value)) return 0x7e00;
    const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
    const size = Math.abs(value);
    if (size === 0) return sign;
    const exponent = Math.max(-14, Math.floor(Math.log2(size)));
    const steps = Math.round(size / 2 ** (exponent - 10));
    return sign + (exponent === -14 ? steps : ((exponent + 15) << 10) + (steps - 1024));
  });
}
