import { expect, test } from "vitest";
import { ancestors, highest, levelFor, tileSize, tilesOnScreen } from "../src/draw/pyramid";
import { centred, whole } from "../src/draw/viewport";

const long = { queries: 32_768, keys: 32_768 };

test("at the highest level an axis is in one tile", () => {
  expect(highest(32_768)).toBe(7);
  expect(highest(257)).toBe(1);
  expect(highest(256)).toBe(0);
  expect(tileSize({ down: 7, across: 7, row: 0, column: 0 }, long)).toEqual({ rows: 256, columns: 256 });
});

test("a cell is never smaller than a pixel, and never twice as large as it need be", () => {
  const axis = whole(long, 800, 600).across;
  for (const scale of [0.013, 0.11, 0.25, 0.3, 0.5, 0.7]) {
    const pixels = scale * 2 * 2 ** levelFor({ ...axis, scale }, 2);
    expect(pixels).toBeGreaterThanOrEqual(1);
    expect(pixels).toBeLessThan(2.0001);
  }
  expect(levelFor({ ...axis, scale: 40 }, 1)).toBe(0);
});

test("each axis has its own level", () => {
  const places = tilesOnScreen(whole({ queries: 10, keys: 32_768 }, 800, 600), 1);
  expect(places.map(({ down, across }) => [down, across])).toEqual([
    [0, 6],
    [0, 6],
  ]);
});

test("tiles at the far edges hold what is left", () => {
  const extent = { queries: 300, keys: 700 };
  expect(tileSize({ down: 0, across: 0, row: 1, column: 2 }, extent)).toEqual({ rows: 44, columns: 188 });
  expect(tileSize({ down: 1, across: 2, row: 0, column: 0 }, extent)).toEqual({ rows: 150, columns: 175 });
});

test("the tiles on the screen cover it, from its middle outwards", () => {
  const view = centred(whole(long, 1000, 1000), { query: 500, key: 1200 }, 1);
  const places = tilesOnScreen(view, 1);
  const names = new Set(places.map((place) => `${place.row},${place.column}`));
  expect(places).toHaveLength(names.size);
  for (const row of [0, 1, 2, 3]) for (const column of [2, 3, 4, 5, 6]) expect(names).toContain(`${row},${column}`);
  const away = places.map((place) => Math.hypot(place.row - 1.5, place.column - 4));
  expect(away).toEqual([...away].sort((one, other) => one - other));
});

test("ancestors end with the tile of the whole map", () => {
  const above = ancestors({ down: 0, across: 5, row: 77, column: 3 }, long);
  expect(above[0]).toEqual({ down: 1, across: 6, row: 38, column: 1 });
  expect(above.at(-1)).toEqual({ down: 7, across: 7, row: 0, column: 0 });
});
