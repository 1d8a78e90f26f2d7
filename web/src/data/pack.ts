// Packs: named arrays in one binary answer, after a header (see PROTOCOL.md).

import { halvesToNumbers } from "./half";

export interface PackedArray {
  readonly values: Float32Array | Uint8Array | Int32Array;
  readonly shape: readonly number[];
}

export interface Pack {
  readonly header: Readonly<Record<string, unknown>>;
  readonly arrays: ReadonlyMap<string, PackedArray>;
}

interface Entry {
  readonly name: string;
  readonly dtype: "u8" | "u16" | "i32" | "f16" | "f32";
  readonly shape: readonly number[];
  readonly at: number;
  readonly scale?: number;
  readonly planes?: boolean;
}

const WIDTHS = { u8: 1, u16: 2, i32: 4, f16: 2, f32: 4 };

export function unpacked(bytes: ArrayBuffer): Pack {
  const start = new Uint8Array(bytes, 0, Math.min(4, bytes.byteLength));
  if (String.fromCharCode(...start) !== "RGD1") throw new Error("this answer is no pack of regard");
  const length = new DataView(bytes).getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  const arrays = new Map<string, PackedArray>();
  for (const entry of header.arrays as Entry[]) arrays.set(entry.name, { values: read(bytes, entry), shape: entry.shape });
  return { header, arrays };
}

/** An array that must be there, as float numbers. */
export function numbers(pack: Pack, name: string): Float32Array {
  const found = pack.arrays.get(name);
  if (!found) throw new Error(`the answer has no ${name}`);
  return found.values instanceof Float32Array ? found.values : Float32Array.from(found.values);
}

function read(bytes: ArrayBuffer, { dtype, shape, at, scale = 1, planes = false }: Entry): PackedArray["values"] {
  const count = shape.reduce((product, size) => product * size, 1);
  const buffer = planes ? woven(new Uint8Array(bytes, at, WIDTHS[dtype] * count), WIDTHS[dtype]) : bytes;
  const from = planes ? 0 : at;
  switch (dtype) {
    case "f16":
      return halvesToNumbers(new Uint16Array(buffer, from, count), scale);
    case "f32":
      return scaled(new Float32Array(buffer, from, count), scale);
    case "u16":
      return scaled(Float32Array.from(new Uint16Array(buffer, from, count)), scale);
    case "i32":
      return new Int32Array(buffer, from, count);
    case "u8":
      return scale === 1 ? new Uint8Array(buffer, from, count) : scaled(Float32Array.from(new Uint8Array(buffer, from, count)), scale);
  }
}

function scaled(values: Float32Array, scale: number): Float32Array {
  return scale === 1 ? values : values.map((value) => value * scale);
}

/** Bytes that were stored plane by plane, back in the order of the numbers they are parts of. */
function woven(planes: Uint8Array, width: number): ArrayBuffer {
  const count = planes.length / width;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane++) {
    for (let place = 0; place < count; place++) bytes[width * place + plane] = planes[plane * count + place];
  }
  return bytes.buffer;
}
