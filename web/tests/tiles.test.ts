import { expect, test, vi } from "vitest";
import type { TileData } from "../src/data/source";
import { DifferenceTiles, TileStore } from "../src/data/tiles";
import type { TilePlace } from "../src/draw/pyramid";

const at = (column: number): TilePlace => ({ down: 0, across: 0, row: 0, column });
const map = { exhibit: 0, layer: 0, entry: 0, heads: [0] };
const tile = (value: number, approximate = false): TileData => {
  return { rows: 1, columns: 1, mass: Float32Array.of(value), peak: Float32Array.of(value), approximate };
};
const settled = () => new Promise((done) => setTimeout(done, 5));

function store(answer: (place: TilePlace, exact: boolean, signal?: AbortSignal) => Promise<TileData>) {
  const asked: string[] = [];
  const failures: string[] = [];
  const source = {
    tile: (_: unknown, place: TilePlace, exact: boolean, signal?: AbortSignal) => {
      asked.push(`${place.column}${exact ? " exact" : ""}`);
      return answer(place, exact, signal);
    },
  };
  const changed = vi.fn();
  return { tiles: new TileStore(source, map, changed, (failure) => failures.push(failure.message)), asked, changed, failures };
}

test("something comes for every place before anything is asked exactly", async () => {
  const { tiles, asked, changed } = store(async (place, exact) => tile(place.column, !exact));
  tiles.want([0, 1, 2, 3, 4, 5].map(at));
  await settled();
  const firstExact = asked.findIndex((name) => name.endsWith("exact"));
  expect(firstExact).toBeGreaterThanOrEqual(6);
  expect(asked).toHaveLength(12);
  expect(tiles.get(at(5))).toMatchObject({ approximate: false });
  expect(tiles.waiting).toBe(false);
  expect(changed).toHaveBeenCalledTimes(12);
});

test("the first is asked for alone, then no more than four at once, and what is no longer wanted is given up", async () => {
  const signals: AbortSignal[] = [];
  const { tiles, asked } = store((place, _, signal) => {
    signals.push(signal!);
    return place.column ? new Promise(() => {}) : Promise.resolve(tile(0));
  });
  tiles.want([0, 1, 2, 3, 4, 5].map(at));
  expect(asked).toEqual(["0"]);
  await settled();
  expect(asked).toEqual(["0", "1", "2", "3", "4"]);
  tiles.want([4, 9].map(at));
  expect(signals.slice(1).map((signal) => signal.aborted)).toEqual([true, true, true, false, false]);
  expect(asked.at(-1)).toBe("9");
});

test("a tile that fails is reported once and not asked for again", async () => {
  const { tiles, asked, failures } = store(() => Promise.reject(new Error("no such layer")));
  tiles.want([at(0)]);
  await settled();
  tiles.want([at(0)]);
  await settled();
  expect(asked).toEqual(["0"]);
  expect(failures).toEqual(["no such layer"]);
});

test("a difference is there when both are, and is made once", () => {
  const fixed = (found: TileData | undefined) => ({ get: () => found, want: () => {}, waiting: false });
  const tiles = new DifferenceTiles(fixed(tile(0.25)), fixed(tile(0.75, true)));
  expect([...tiles.get(at(0))!.mass]).toEqual([0.5]);
  expect(tiles.get(at(0))!.approximate).toBe(true);
  expect(tiles.get(at(0))).toBe(tiles.get(at(0)));
  expect(new DifferenceTiles(fixed(undefined), fixed(tile(1))).get(at(0))).toBeUndefined();
});
