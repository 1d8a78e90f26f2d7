import { expect, test } from "vitest";
import { bars } from "../src/draw/bars";

const axis = { start: 0, scale: 10, pixels: 50, size: 5, least: 10 };

test("each position has a bar where there is room", () => {
  expect(bars([1, 2, NaN, 4, 5], axis, 1, "mean")).toEqual([
    { from: 0, past: 10, value: 1 },
    { from: 10, past: 20, value: 2 },
    { from: 30, past: 40, value: 4 },
    { from: 40, past: 50, value: 5 },
  ]);
});

test("positions smaller than a pixel share one", () => {
  const small = { ...axis, scale: 0.25, pixels: 2, size: 8 };
  const values = [1, 3, NaN, 5, 2, 2, 2, 10];
  expect(bars(values, small, 1, "mean").map((bar) => bar.value)).toEqual([3, 4]);
  expect(bars(values, small, 1, "most").map((bar) => bar.value)).toEqual([5, 10]);
});
