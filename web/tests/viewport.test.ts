import { expect, test } from "vitest";
import { CLOSEST, LARGEST_WHOLE, heldAxis, shownOn } from "../src/draw/axis";
import { at, cellAt, centred, isWhole, moved, resized, revealing, spotOf, whole, zoomed } from "../src/draw/viewport";

const long = { queries: 4096, keys: 8192 };
const all = whole(long, 800, 600);
const inside = centred(all, { query: 2000, key: 4000 }, 2);

test("the whole map fits with square cells, and a short one is not blown up", () => {
  expect(all.across.scale).toBeCloseTo(800 / 8192);
  expect(all.down.scale).toBe(all.across.scale);
  expect(whole({ queries: 3, keys: 4 }, 800, 600).across.scale).toBe(LARGEST_WHOLE);
  expect(isWhole(all)).toBe(true);
  expect(isWhole(inside)).toBe(false);
});

test("ten words over many tokens are stretched, so that they can be read", () => {
  const view = whole({ queries: 10, keys: 32_768 }, 800, 600);
  expect(view.across.scale * 32_768).toBeCloseTo(800);
  expect(view.down.scale).toBeCloseTo(15);
});

test("zooming keeps the token under the pointer where it is", () => {
  const before = cellAt(inside, 313, 217);
  const closer = zoomed(inside, 3.7, 313, 217);
  expect(closer.across.scale).toBeCloseTo(7.4);
  expect(cellAt(closer, 313, 217)).toEqual(before);
});

test("no gesture leaves the map", () => {
  const last = moved(inside, 1e9, 1e9);
  expect([last.across.start, last.down.start]).toEqual([8192 - 400, 4096 - 300]);
  const first = moved(inside, -1e9, -1e9);
  expect([first.across.start, first.down.start]).toEqual([0, 0]);
  expect(zoomed(inside, 1e-9, 0, 0)).toEqual(all);
  expect(heldAxis({ ...inside.across, scale: 1e9 }).scale).toBe(CLOSEST);
});

test("a cell is revealed by the smallest move", () => {
  const [left, top] = [inside.across.start, inside.down.start];
  expect(revealing(inside, { query: 2000, key: 4000 })).toEqual(inside);
  expect(revealing(inside, { query: 2000, key: left - 10 }).across.start).toBe(left - 10);
  expect(revealing(inside, { query: top + 300, key: 4000 }).down.start).toBe(top + 1);
});

test("outside the map there is no cell", () => {
  const view = whole({ queries: 3, keys: 4 }, 800, 600);
  expect(cellAt(view, 4 * LARGEST_WHOLE - 1, 3 * LARGEST_WHOLE - 1)).toEqual({ query: 2, key: 3 });
  expect(cellAt(view, 4 * LARGEST_WHOLE + 1, 10)).toBeNull();
  expect(cellAt(view, -1, 10)).toBeNull();
});

test("a place is found again on a screen of another size", () => {
  const smaller = resized(inside, 400, 300);
  expect(cellAt(smaller, 200, 150)).toEqual(cellAt(inside, 400, 300));
  const again = at(all, spotOf(inside));
  expect(again.across.start).toBeCloseTo(inside.across.start);
  expect(again.down.scale).toBeCloseTo(inside.down.scale);
});

test("the part on the screen takes in cells cut by its edges", () => {
  expect(shownOn({ start: 10.5, scale: 10, pixels: 100, size: 8192, least: 0.1 })).toEqual([10, 21]);
});
