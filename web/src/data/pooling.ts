// Cells of a map from its weights: the mass that the queries of a cell give to its keys, and its largest weight.

import { SIDE, type TilePlace, tileSize } from "../draw/pyramid";
import type { AtlasData, HeadRows, Margins, TileData } from "./source";
import type { StoredLayer } from "./stored";

const SAMPLED = 4; // queries of each band, in an approximate tile
const CHEAP = 2 ** 22; // pairs: what is computed exactly at once

/** As many cells as `rows` × `columns`, from cell (top, left) on, at levels down and across. */
function pooled(
  layer: StoredLayer,
  heads: readonly number[],
  place: { down: number; across: number; top: number; left: number; rows: number; columns: number },
  sampled: number,
): TileData {
  const { rows, columns } = place;
  const [tall, wide] = [2 ** place.down, 2 ** place.across];
  const mass = new Float32Array(rows * columns).fill(NaN);
  const peak = new Float32Array(rows * columns).fill(NaN);
  const from = place.left * wide;
  const past = Math.min(layer.keys, (place.left + columns) * wide);
  const weights = new Float32Array(past - from);
  const sums = new Float64Array(columns);
  let approximate = false;
  for (let row = 0; row < rows; row++) {
    const first = (place.top + row) * tall;
    const count = Math.min(layer.queries, first + tall) - first;
    const taken = Math.min(count, sampled);
    approximate ||= taken < count;
    sums.fill(0);
    for (const head of heads) {
      for (let each = 0; each < taken; each++) {
        layer.weigh(head, first + Math.floor(((each + 0.5) * count) / taken), from, past, weights);
        for (let key = 0; key < weights.length; key++) {
          const weight = weights[key];
          if (weight !== weight) continue;
          const column = wide === 1 ? key : Math.floor(key / wide);
          const cell = row * columns + column;
          sums[column] += weight;
          mass[cell] = 0; // it is seen; the sum follows
          if (!(peak[cell] >= weight)) peak[cell] = weight;
        }
      }
    }
    for (let column = 0; column < columns; column++) {
      const cell = row * columns + column;
      if (mass[cell] === 0) mass[cell] = sums[column] / (taken * heads.length);
    }
  }
  return { rows, columns, mass, peak, approximate };
}

export function tileOf(layer: StoredLayer, heads: readonly number[], place: TilePlace, exact: boolean): TileData {
  const { rows, columns } = tileSize(place, layer);
  const pairs = rows * columns * 2 ** (place.down + place.across) * heads.length;
  const sampled = exact || pairs <= CHEAP ? Infinity : SAMPLED;
  const [top, left] = [place.row * SIDE, place.column * SIDE];
  return pooled(layer, heads, { ...place, top, left, rows, columns }, sampled);
}

export function atlasOf(layer: StoredLayer, size: number): AtlasData {
  const level = (length: number) => Math.max(0, Math.ceil(Math.log2(length / size)));
  const [down, across] = [level(layer.queries), level(layer.keys)];
  const rows = Math.ceil(layer.queries / 2 ** down);
  const columns = Math.ceil(layer.keys / 2 ** across);
  const sampled = layer.queries * layer.keys <= CHEAP ? Infinity : SAMPLED;
  const maps = new Float32Array(layer.heads * rows * columns);
  let approximate = false;
  for (let head = 0; head < layer.heads; head++) {
    const found = pooled(layer, [head], { down, across, top: 0, left: 0, rows, columns }, sampled);
    maps.set(found.mass, head * rows * columns);
    approximate ||= found.approximate;
  }
  return { heads: layer.heads, rows, columns, maps, measures: layer.measures, approximate };
}

export function marginsOf(layer: StoredLayer, heads: readonly number[]): Margins {
  return {
    entropy: averaged(layer.entropy, layer.queries, heads),
    received: averaged(layer.received, layer.keys, heads),
    approximate: false,
  };
}

export function rowOf(layer: StoredLayer, query: number): HeadRows {
  const weights = new Float32Array(layer.heads * layer.keys);
  for (let head = 0; head < layer.heads; head++) {
    layer.weigh(head, query, 0, layer.keys, weights.subarray(head * layer.keys, (head + 1) * layer.keys));
  }
  return { heads: layer.heads, length: layer.keys, weights, approximate: false };
}

export function columnOf(layer: StoredLayer, heads: readonly number[], key: number): HeadRows {
  const weights = new Float32Array(heads.length * layer.queries);
  heads.forEach((head, index) => {
    for (let query = 0; query < layer.queries; query++) {
      layer.weigh(head, query, key, key + 1, weights.subarray(index * layer.queries + query));
    }
  });
  return { heads: heads.length, length: layer.queries, weights, approximate: false };
}

function averaged(values: Float32Array, length: number, heads: readonly number[]): Float32Array {
  return Float32Array.from({ length }, (_, place) => {
    return heads.reduce((sum, head) => sum + values[head * length + place], 0) / heads.length;
  });
}
