import { expect, test } from "vitest";
import { asTile } from "../src/data/answers";
import { halfToNumber } from "../src/data/half";
import { numbers, unpacked } from "../src/data/pack";
import { bytesOf, halves, pack } from "./packing";

test("half-precision numbers are read exactly", () => {
  const known: [number, number][] = [
    [0x3c00, 1],
    [0xc000, -2],
    [0x7bff, 65504],
    [0x0400, 2 ** -14],
    [0x0001, 2 ** -24],
    [0x3555, 0.333251953125],
    [0x7c00, Infinity],
    [0xfc00, -Infinity],
    [0x8000, -0],
  ];
  for (const [bits, value] of known) expect(halfToNumber(bits)).toBe(value);
  expect(halfToNumber(0x7e00)).toBeNaN();
});

test("every kind of array comes back, scaled where it was", () => {
  const found = unpacked(
    pack(
      [
        { name: "a", dtype: "u8", shape: [3], bytes: Uint8Array.of(1, 2, 255) },
        { name: "b", dtype: "f32", shape: [1, 2], bytes: bytesOf(Float32Array.of(0.1, -3)) },
        { name: "c", dtype: "f16", shape: [2], bytes: bytesOf(halves([0.5, 0.25])), scale: 0.5 },
        { name: "d", dtype: "i32", shape: [2], bytes: bytesOf(Int32Array.of(-7, 70_000)) },
        { name: "e", dtype: "u16", shape: [1], bytes: bytesOf(Uint16Array.of(40_000)) },
      ],
      { approximate: true, measures: ["é"] },
    ),
  );
  expect([...numbers(found, "a")]).toEqual([1, 2, 255]);
  expect(numbers(found, "b")[0]).toBeCloseTo(0.1);
  expect([...numbers(found, "c")]).toEqual([0.25, 0.125]);
  expect([...numbers(found, "d")]).toEqual([-7, 70_000]);
  expect([...numbers(found, "e")]).toEqual([40_000]);
  expect(found.header.measures).toEqual(["é"]);
});

test("planes of bytes are woven together again", () => {
  const bits = halves([1, 2, -3, 0.125]);
  const bytes = bytesOf(bits);
  const planes = Uint8Array.of(...[0, 2, 4, 6, 1, 3, 5, 7].map((place) => bytes[place]));
  const found = unpacked(pack([{ name: "q", dtype: "f16", shape: [4], bytes: planes, planes: true }]));
  expect([...numbers(found, "q")]).toEqual([1, 2, -3, 0.125]);
});

test("what is no pack is refused", () => {
  expect(() => unpacked(new TextEncoder().encode("<html>…</html>").buffer as ArrayBuffer)).toThrow("no pack");
  expect(() => asTile(unpacked(pack([])))).toThrow("no mass");
});
