// The tiles of one map that the page has, and the order in which it asks for the others.

import { type TilePlace, placeName } from "../draw/pyramid";
import { difference } from "./broken";
import type { MapName, Source, TileData } from "./source";

/** What a picture of a map is drawn from. */
export interface Tiles {
  get(place: TilePlace): TileData | undefined;
  want(places: readonly TilePlace[]): void;
  readonly waiting: boolean; // for something that was wanted
}

const KEPT = 160;
const AT_ONCE = 4;

export class TileStore implements Tiles {
  private readonly kept = new Map<string, TileData>(); // least recently used first
  private readonly asked = new Map<string, AbortController>();
  private readonly failed = new Set<string>();
  private wanted: readonly TilePlace[] = [];

  constructor(
    private readonly source: Pick<Source, "tile">,
    readonly map: MapName,
    private readonly changed: () => void,
    private readonly report: (failure: Error) => void,
  ) {}

  get(place: TilePlace): TileData | undefined {
    const name = placeName(place);
    const found = this.kept.get(name);
    if (found) {
      this.kept.delete(name);
      this.kept.set(name, found);
    }
    return found;
  }

  /** The places that are on the screen now, the most important first. What is no longer wanted is no longer waited for. */
  want(places: readonly TilePlace[]): void {
    this.wanted = places;
    const names = new Set(places.map(placeName));
    for (const [name, control] of this.asked) {
      if (!names.has(name)) {
        control.abort();
        this.asked.delete(name);
      }
    }
    this.pump();
  }

  get waiting(): boolean {
    return this.next() !== undefined || this.asked.size > 0;
  }

  close(): void {
    this.want([]);
  }

  /** First something for every place, then what is exact. */
  private next(): { place: TilePlace; exact: boolean } | undefined {
    const open = this.wanted.filter((place) => !this.asked.has(placeName(place)) && !this.failed.has(placeName(place)));
    const empty = open.find((place) => !this.kept.has(placeName(place)));
    if (empty) return { place: empty, exact: false };
    const rough = open.find((place) => this.kept.get(placeName(place))?.approximate);
    return rough && { place: rough, exact: true };
  }

  private pump(): void {
    // The first tile stands in for all others, so it is not kept waiting by them.
    const most = this.kept.size + this.failed.size ? AT_ONCE : 1;
    while (this.asked.size < most) {
      const task = this.next();
      if (!task) return;
      void this.fetch(task.place, task.exact);
    }
  }

  private async fetch(place: TilePlace, exact: boolean): Promise<void> {
    const name = placeName(place);
    const control = new AbortController();
    this.asked.set(name, control);
    try {
      const tile = await this.source.tile(this.map, place, exact, control.signal);
      this.kept.delete(name);
      this.kept.set(name, tile);
      for (const oldest of this.kept.keys()) {
        if (this.kept.size <= KEPT) break;
        this.kept.delete(oldest);
      }
    } catch (failure) {
      if (control.signal.aborted) return;
      this.failed.add(name);
      this.report(failure instanceof Error ? failure : new Error(String(failure)));
    }
    if (this.asked.get(name) === control) this.asked.delete(name);
    this.changed();
    this.pump();
  }
}

/** What one map has more than another: tiles of both, subtracted. */
export class DifferenceTiles implements Tiles {
  private readonly made = new WeakMap<TileData, { from: TileData; tile: TileData }>();

  constructor(
    private readonly less: Tiles,
    private readonly more: Tiles,
  ) {}

  get(place: TilePlace): TileData | undefined {
    const [less, more] = [this.less.get(place), this.more.get(place)];
    if (!less || !more || less.mass.length !== more.mass.length) return undefined;
    const held = this.made.get(more);
    if (held?.from === less) return held.tile;
    const tile: TileData = {
      ...more,
      mass: more.mass.map((value, index) => difference(value, less.mass[index])),
      peak: more.peak.map((value, index) => difference(value, less.peak[index])),
      approximate: less.approximate || more.approximate,
    };
    this.made.set(more, { from: less, tile });
    return tile;
  }

  want(places: readonly TilePlace[]): void {
    this.less.want(places);
    this.more.want(places);
  }

  get waiting(): boolean {
    return this.less.waiting || this.more.waiting;
  }
}
