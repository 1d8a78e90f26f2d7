import { expect, test } from "vitest";
import { difference, numberOf } from "../src/data/broken";
import { brokenRuns, hatchBroken } from "../src/draw/brokencells";
import type { Box, Pen } from "../src/draw/pen";
import { theme } from "../src/draw/theme";
import { amount, percent } from "../src/draw/weight";
import { csv } from "../src/files/csv";
import { blended, heaviest } from "../src/state/rows";

test("numbers that are none have a word of their own", () => {
  expect([0.5, NaN, Infinity, -Infinity].map((each) => amount(each))).toEqual(["0.500", "–", "NaN", "−∞"]);
  expect(percent(Infinity)).toBe("NaN");
  expect((["NaN", "Infinity", "-Infinity", 0.5] as const).map(numberOf)).toEqual([Infinity, Infinity, -Infinity, 0.5]);
  expect(csv(["a", "b", "c"], [[0.5, NaN, Infinity]])).toBe("a,b,c\r\n0.5,,NaN\r\n");
});

test("a difference to what is no number is none, and to what is hidden stays hidden", () => {
  expect(difference(0.75, 0.5)).toBe(0.25);
  expect(difference(Infinity, Infinity)).toBe(Infinity);
  expect(difference(0.5, Infinity)).toBe(Infinity);
  expect(difference(NaN, 0.5)).toBeNaN();
});

test("a mean of heads is no number where one of them is none, and nothing of it is heaviest", () => {
  const rows = { heads: 2, length: 3, approximate: false, weights: Float32Array.from([0.25, 0.75, NaN, 0.5, Infinity, NaN]) };
  const mean = blended(rows, [0, 1]);
  expect([...mean]).toEqual([0.375, Infinity, NaN]);
  expect(heaviest(mean, 5)).toEqual([{ place: 0, weight: 0.375 }]);
});

test("cells that are no numbers are hatched in runs, where they are shown", () => {
  const cells = { values: Float32Array.from([0, Infinity, Infinity, 1, NaN, Infinity, 0, Infinity]), rows: 2, columns: 4 };
  expect(brokenRuns(cells)).toEqual([
    { x: 1, y: 0, width: 2, height: 1 },
    { x: 1, y: 1, width: 1, height: 1 },
    { x: 3, y: 1, width: 1, height: 1 },
  ]);
  const drawn: Box[] = [];
  const pen = { hatch: (box: Box) => drawn.push(box) } as unknown as Pen;
  const shown = { x: 2, y: 0, width: 2, height: 2 };
  expect(hatchBroken(pen, cells, shown, { x: 100, y: 50, width: 20, height: 20 }, theme(false, "ember"))).toBe(true);
  expect(drawn).toEqual([
    { x: 100, y: 50, width: 10, height: 10 },
    { x: 110, y: 60, width: 10, height: 10 },
  ]);
});
