// A layer as an exported page holds it: half-precision queries and keys, or maps of 256 levels, and who may look at whom.

import { BROKEN } from "./broken";
import { type Pack, type PackedArray, numbers } from "./pack";

export class StoredLayer {
  readonly heads: number;
  readonly queries: number;
  readonly keys: number;
  readonly entropy: Float32Array; // [heads, queries]
  readonly received: Float32Array; // [heads, keys]
  readonly measures: ReadonlyMap<string, Float32Array>;
  private readonly lse: Float32Array;
  private readonly low: number;
  private readonly high: number;
  private readonly some: readonly (PackedArray | undefined)[];
  private readonly maps: PackedArray | undefined;
  private readonly q: PackedArray | undefined;
  private readonly k: PackedArray | undefined;

  constructor(pack: Pack) {
    this.lse = numbers(pack, "lse");
    [this.heads, this.queries] = pack.arrays.get("lse")!.shape;
    this.received = numbers(pack, "received");
    this.keys = pack.arrays.get("received")!.shape[1];
    this.entropy = numbers(pack, "entropies");
    const names = (pack.header.measures ?? []) as string[];
    this.measures = new Map(names.map((name) => [name, numbers(pack, name)]));
    const [low, high] = (pack.header.band ?? [null, null]) as [number | null, number | null];
    this.low = low ?? -Infinity;
    this.high = high ?? Infinity;
    this.some = ["queries", "keys", "hidden"].map((name) => pack.arrays.get(name));
    this.maps = pack.arrays.get("weights");
    this.q = pack.arrays.get("q");
    this.k = pack.arrays.get("k");
  }

  /** The weights of one query over keys [from, past), written to `out`; NaN where it may not look, +∞ where they are no numbers. */
  weigh(head: number, query: number, from: number, past: number, out: Float32Array): void {
    const lse = this.lse[head * this.queries + query];
    const [queries, keys, hidden] = this.some;
    if (lse === -Infinity || (queries && !queries.values[own(queries, head) * this.queries + query])) {
      out.fill(NaN, 0, past - from);
      return;
    }
    if (lse === BROKEN) out.fill(BROKEN, 0, past - from);
    else this.fill(head, query, from, past, lse, out);
    const first = query + this.low;
    const last = query + this.high;
    const line = hidden ? (own(hidden, head) * this.queries + query) * Math.ceil(this.keys / 8) : 0;
    const row = keys ? own(keys, head) * this.keys : 0;
    for (let key = from; key < past; key++) {
      const shut =
        key < first ||
        key > last ||
        (keys && !keys.values[row + key]) ||
        (hidden && hidden.values[line + (key >> 3)] & (128 >> (key & 7)));
      if (shut) out[key - from] = NaN;
    }
  }

  private fill(head: number, query: number, from: number, past: number, lse: number, out: Float32Array): void {
    if (this.maps) {
      const start = (head * this.queries + query) * this.keys;
      for (let key = from; key < past; key++) out[key - from] = (this.maps.values[start + key] / 255) ** 2;
      return;
    }
    const [q, k] = [this.q!, this.k!];
    const width = q.shape[2];
    const mine = (head * this.queries + query) * width;
    const theirs = Math.floor((head * k.shape[0]) / this.heads) * this.keys;
    for (let key = from; key < past; key++) {
      const start = (theirs + key) * width;
      let score = 0;
      for (let each = 0; each < width; each++) score += q.values[mine + each] * k.values[start + each];
      out[key - from] = Math.exp(score - lse) || 0; // a key of infinities that is not looked at: 0 · ∞
    }
  }
}

function own(array: PackedArray, head: number): number {
  return array.shape[0] === 1 ? 0 : head;
}
