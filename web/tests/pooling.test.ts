import { expect, test } from "vitest";
import { unpacked } from "../src/data/pack";
import { atlasOf, columnOf, marginsOf, rowOf, tileOf } from "../src/data/pooling";
import { StoredLayer } from "../src/data/stored";
import { bytesOf, halves, pack } from "./packing";

const [HEADS, KV_HEADS, QUERIES, KEYS, WIDTH] = [2, 1, 7, 11, 3];
const OFFSET = 4; // query i may look at keys up to i + 4

// Numbers that half precision holds exactly, so that the written-out weights below are those of the layer.
const number = (seed: number) => Math.round(16 * Math.sin(12.9898 * seed)) / 16;
const q = Array.from({ length: HEADS * QUERIES * WIDTH }, (_, place) => number(place + 1));
const k = Array.from({ length: KV_HEADS * KEYS * WIDTH }, (_, place) => number(1000 + place));
const mayLook = (query: number, key: number) => key <= query + OFFSET && key !== 2;

/** softmax(QKᵀ) in double precision, from the definition. */
function written(head: number, query: number): number[] {
  const score = (key: number) =>
    Array.from({ length: WIDTH }, (_, d) => q[(head * QUERIES + query) * WIDTH + d] * k[key * WIDTH + d]).reduce((a, b) => a + b);
  const parts = Array.from({ length: KEYS }, (_, key) => (mayLook(query, key) ? Math.exp(score(key)) : NaN));
  const total = parts.filter((part) => part === part).reduce((a, b) => a + b, 0);
  return parts.map((part) => part / total);
}

function logSum(head: number, query: number): number {
  const scores = Array.from({ length: KEYS }, (_, key) => key)
    .filter((key) => mayLook(query, key))
    .map((key) => Array.from({ length: WIDTH }, (_, d) => q[(head * QUERIES + query) * WIDTH + d] * k[key * WIDTH + d]).reduce((a, b) => a + b));
  return Math.log(scores.map(Math.exp).reduce((a, b) => a + b));
}

function stored(): StoredLayer {
  const lse = Float32Array.from({ length: HEADS * QUERIES }, (_, at) => logSum(Math.floor(at / QUERIES), at % QUERIES));
  const seen = Uint8Array.from({ length: KEYS }, (_, key) => Number(key !== 2));
  return new StoredLayer(
    unpacked(
      pack(
        [
          { name: "q", dtype: "f16", shape: [HEADS, QUERIES, WIDTH], bytes: bytesOf(halves(q)) },
          { name: "k", dtype: "f16", shape: [KV_HEADS, KEYS, WIDTH], bytes: bytesOf(halves(k)) },
          { name: "lse", dtype: "f32", shape: [HEADS, QUERIES], bytes: bytesOf(lse) },
          { name: "entropies", dtype: "f16", shape: [HEADS, QUERIES], bytes: bytesOf(halves(Array(14).fill(0.5))) },
          { name: "received", dtype: "f32", shape: [HEADS, KEYS], bytes: bytesOf(new Float32Array(22).fill(0.25)) },
          { name: "keys", dtype: "u8", shape: [1, KEYS], bytes: seen },
          { name: "sink", dtype: "f32", shape: [HEADS], bytes: bytesOf(Float32Array.of(0.1, 0.2)) },
        ],
        { band: [null, OFFSET], measures: ["sink"] },
      ),
    ),
  );
}

const close = (found: ArrayLike<number>, wanted: number[]) => {
  expect(found.length).toBe(wanted.length);
  wanted.forEach((value, place) => {
    if (Number.isNaN(value)) expect(found[place]).toBeNaN();
    else expect(found[place]).toBeCloseTo(value, 5);
  });
};

test("level 0 is the weights themselves", () => {
  const tile = tileOf(stored(), [1], { down: 0, across: 0, row: 0, column: 0 }, true);
  expect([tile.rows, tile.columns, tile.approximate]).toEqual([QUERIES, KEYS, false]);
  const wanted = Array.from({ length: QUERIES }, (_, query) => written(1, query)).flat();
  close(tile.mass, wanted);
  close(tile.peak, wanted);
});

test("a cell holds the mass its queries give to its keys, and its largest weight, over both heads", () => {
  const tile = tileOf(stored(), [0, 1], { down: 1, across: 2, row: 0, column: 0 }, true);
  expect([tile.rows, tile.columns]).toEqual([4, 3]);
  for (let row = 0; row < 4; row++) {
    const queries = [2 * row, 2 * row + 1].filter((query) => query < QUERIES);
    for (let column = 0; column < 3; column++) {
      const cell = queries.flatMap((query) =>
        [0, 1].map((head) => written(head, query).slice(4 * column, 4 * column + 4).filter((weight) => weight === weight)),
      );
      const all = cell.flat();
      const found = [tile.mass[3 * row + column], tile.peak[3 * row + column]];
      if (!all.length) expect(found).toEqual([NaN, NaN]);
      else {
        expect(found[0]).toBeCloseTo(all.reduce((a, b) => a + b, 0) / (2 * queries.length), 5);
        expect(found[1]).toBeCloseTo(Math.max(...all), 5);
      }
    }
    const sum = [0, 1, 2].map((column) => tile.mass[3 * row + column]).filter((mass) => mass === mass);
    expect(sum.reduce((a, b) => a + b)).toBeCloseTo(1, 5);
  }
});

test("rows and columns are the same weights", () => {
  const row = rowOf(stored(), 3);
  close(row.weights, [...written(0, 3), ...written(1, 3)]);
  const column = columnOf(stored(), [1], 6);
  close(column.weights, Array.from({ length: QUERIES }, (_, query) => written(1, query)[6]));
});

test("an atlas has a small map for each head, and the measures", () => {
  const found = atlasOf(stored(), 4);
  expect([found.heads, found.rows, found.columns]).toEqual([2, 4, 3]);
  const tile = tileOf(stored(), [1], { down: 1, across: 2, row: 0, column: 0 }, true);
  close(found.maps.slice(12), [...tile.mass]);
  expect(found.measures.get("sink")![1]).toBeCloseTo(0.2);
  expect([...marginsOf(stored(), [0, 1]).entropy]).toEqual(Array(7).fill(0.5));
});

test("maps of 256 levels are read through their squares", () => {
  const levels = Uint8Array.from({ length: 4 }, (_, place) => [0, 51, 255, 102][place]);
  const layer = new StoredLayer(
    unpacked(
      pack([
        { name: "weights", dtype: "u8", shape: [1, 2, 2], bytes: levels },
        { name: "lse", dtype: "f32", shape: [1, 2], bytes: bytesOf(Float32Array.of(0, 0)) },
        { name: "entropies", dtype: "f16", shape: [1, 2], bytes: bytesOf(halves([0, 0])) },
        { name: "received", dtype: "f32", shape: [1, 2], bytes: bytesOf(Float32Array.of(1, 1)) },
        { name: "hidden", dtype: "u8", shape: [1, 2, 1], bytes: Uint8Array.of(0b0100_0000, 0) },
      ]),
    ),
  );
  close(rowOf(layer, 0).weights, [0, NaN]);
  close(rowOf(layer, 1).weights, [1, 0.16]);
});
