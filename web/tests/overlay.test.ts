import { expect, test } from "vitest";
import { enlarged, isDark, lit } from "../src/draw/overlay";

const white = { width: 4, height: 2, pixels: new Uint8Array(24).fill(255) };
const red = (pixels: Uint8ClampedArray, place: number) => pixels[4 * place];

test("a picture stays as it is where it is looked at most, and goes dark where it is not", () => {
  const pixels = lit(white, [1, 0], { rows: 1, columns: 2 }, { top: 1, smooth: false, table: null });
  expect([0, 1, 2, 3].map((place) => red(pixels, place))).toEqual([255, 255, 119, 119]);
  expect(pixels[3]).toBe(255);
});

test("without weights it is the picture", () => {
  expect(new Set(lit(white, null, { rows: 1, columns: 2 }, { top: 1, smooth: true, table: null }))).toEqual(new Set([255]));
});

test("smoothly, light falls off between the middles of patches", () => {
  const pixels = lit(white, [1, 0], { rows: 1, columns: 2 }, { top: 1, smooth: true, table: null });
  const found = [0, 1, 2, 3].map((place) => red(pixels, place));
  expect(found[0]).toBe(255);
  expect(found[3]).toBe(119);
  expect(found[1]).toBeGreaterThan(found[2]);
});

test("a small picture is made larger by whole steps", () => {
  const small = { width: 2, height: 1, pixels: Uint8Array.of(1, 2, 3, 4, 5, 6) };
  const large = enlarged(small, 5);
  expect([large.width, large.height]).toEqual([6, 3]);
  expect([...large.pixels.slice(6, 12)]).toEqual([1, 2, 3, 4, 5, 6]);
  expect(enlarged(large, 5)).toBe(large);
});

test("a picture that is dark by itself is lit in colours", () => {
  const black = { width: 4, height: 2, pixels: new Uint8Array(24) };
  expect([isDark(black), isDark(white)]).toEqual([true, false]);
  const table = new Uint32Array(Uint8Array.from({ length: 1024 }, (_, place) => Math.floor(place / 4)).buffer);
  const pixels = lit(black, [1, 0.5], { rows: 1, columns: 2 }, { top: 1, smooth: false, table });
  expect([0, 3].map((place) => red(pixels, place))).toEqual([158, 79]);
});
