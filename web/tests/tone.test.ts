import { expect, test } from "vitest";
import { tickStep, ticks } from "../src/draw/ticks";
import { largest, painted, paintedDifference, part } from "../src/draw/tone";
import { amount, percent } from "../src/draw/weight";

const table = Uint32Array.from({ length: 256 }, (_, step) => step);

test("weights become steps of the table", () => {
  const weights = Float32Array.from([0, 0.25, 0.5, 1, NaN, -1]);
  expect([...painted(weights, { top: 0.5, curve: "linear" }, table, { hidden: 999, broken: 888 })]).toEqual([0, 128, 255, 255, 999, 0]);
});

test("a bent scale keeps the order and both ends", () => {
  for (const curve of ["linear", "root", "log"] as const) {
    expect(part(0, { top: 0.4, curve })).toBe(0);
    expect(part(0.4, { top: 0.4, curve })).toBe(1);
    expect(part(0.1, { top: 0.4, curve })).toBeLessThan(part(0.2, { top: 0.4, curve }));
  }
  expect(part(0.04, { top: 0.4, curve: "log" })).toBeCloseTo(0.75);
  expect(part(0.1, { top: 0.4, curve: "root" })).toBeCloseTo(0.5);
  expect(part(0.3, { top: 0, curve: "root" })).toBe(0);
});

test("differences go both ways from the middle", () => {
  const found = paintedDifference(Float32Array.from([-1, 0, 1, NaN]), { top: 1, curve: "linear" }, table, { hidden: 7, broken: 8 });
  expect([...found]).toEqual([0, 128, 255, 7]);
});

test("the largest passes over what is no number", () => {
  expect(largest([NaN, 0.2, -0.7])).toBeCloseTo(0.7);
  expect(largest([])).toBe(0);
});

test("ticks stand at round numbers, far enough apart", () => {
  expect(tickStep(0.02, 60)).toBe(5000);
  expect(tickStep(40, 60)).toBe(2);
  expect(ticks(13, 31, 10, 45)).toEqual([15, 20, 25, 30]);
});

test("numbers are short", () => {
  expect(amount(0.123456)).toBe("0.123");
  expect(amount(0)).toBe("0");
  expect(amount(1.23e-7)).toBe("1.2e−7");
  expect(amount(-0.5)).toBe("−0.500");
  expect(percent(0.5)).toBe("50 %");
  expect(percent(0.0123)).toBe("1.2 %");
  expect(percent(0.994)).toBe("99.4 %");
  expect([percent(1), percent(0), percent(1e-5)]).toEqual(["100 %", "0 %", "<0.1 %"]);
});

test("what is no number is painted apart from what may not look, and sets no scale", () => {
  const weights = Float32Array.from([0.25, Infinity, NaN]);
  expect(largest(weights)).toBe(0.25);
  const table = Uint32Array.from({ length: 256 }, (_, step) => step);
  for (const curve of ["linear", "root", "log"] as const) {
    expect([...painted(weights, { top: 0.25, curve }, table, { hidden: 999, broken: 888 })]).toEqual([255, 888, 999]);
  }
  expect([...paintedDifference(Float32Array.from([Infinity, NaN]), { top: 1, curve: "linear" }, table, { hidden: 7, broken: 8 })]).toEqual([8, 7]);
});
