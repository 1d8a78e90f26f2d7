import { expect, test } from "vitest";
import { linesOf } from "../src/draw/textlines";
import { following, names, spelling, words } from "../src/draw/words";
import { blended, heaviest } from "../src/state/rows";

test("spaces before tokens become gaps, and pieces of words stay together", () => {
  const tokens = ["The", " mod", "el", ",", " too", "\n"];
  expect(spelling(tokens)).toBe("spaced");
  expect(words(tokens).map(({ text, spaced, ends }) => [text, spaced, ends])).toEqual([
    ["The", false, false],
    ["mod", true, false],
    ["el", false, false],
    [",", false, false],
    ["too", true, false],
    ["␊", false, true],
  ]);
  expect(names(tokens)).toEqual(["The", "mod", "·el", ",", "too", "\n"]);
});

test("words without spaces are set apart, letters are not", () => {
  expect(words(["two", "hundred"]).map(({ spaced }) => spaced)).toEqual([false, true]);
  const letters = [..."to be or not"];
  expect(spelling(letters)).toBe("letters");
  expect(words(letters).some(({ spaced }) => spaced)).toBe(false);
  expect(names(letters)).toEqual(letters);
});

test("lines are drawn for the heavy pairs, the heaviest on top", () => {
  const weights = Float32Array.from([0.9, 0.1, 0.001, NaN, 0.3, 0.7]);
  expect(linesOf(weights, 2, 3).map(({ from, to }) => [from, to])).toEqual([
    [0, 1],
    [1, 1],
    [1, 2],
    [0, 0],
  ]);
  expect(linesOf(weights, 2, 3, { key: 1 })).toHaveLength(2);
  expect(linesOf(weights, 2, 3, { query: 0 })).toHaveLength(2);
});

test("heads are blended where they may look", () => {
  const rows = { heads: 2, length: 3, weights: Float32Array.from([0.5, NaN, NaN, 0.25, 0.75, NaN]), approximate: false };
  expect([...blended(rows, [0, 1])]).toEqual([0.375, 0.375, NaN]);
  expect([...blended(rows, [1])]).toEqual([0.25, 0.75, NaN]);
});

test("the heaviest come first, and what is not looked at is left out", () => {
  const found = heaviest(Float32Array.from([0.25, NaN, 0.5, 0, 0.125]), 2);
  expect(found).toEqual([
    { place: 2, weight: 0.5 },
    { place: 0, weight: 0.25 },
  ]);
  expect(heaviest(Float32Array.from([0, NaN]), 3)).toEqual([]);
});

test("what could have stood at a place is named as what stands there", () => {
  const tokens = ["neuf", " cent", "-", "dix"];
  expect(following(tokens, 2, ["-", " cent", "vingt", "</s>"])).toEqual(["-", "cent", "·vingt", "</s>"]);
  expect(following(tokens, 0, ["neuf", "six"])).toEqual(["neuf", "six"]);
});
