// What is looked at and how: one object that every view reads and changes.

import { type Exhibit, type Layer, type Side, namesOf } from "../data/manifest";
import type { MapName, Source } from "../data/source";
import type { Names } from "../draw/edges";
import { plain } from "../draw/plain";
import { names } from "../draw/words";
import { type Theme, theme } from "../draw/theme";
import type { Extent } from "../draw/viewport";
import { Touching } from "./touching.svelte";
import { type Choice, START, type ViewName, type ViewState, readFragment, writeFragment } from "./fragment";

export class Session {
  exhibits = $state.raw<readonly Exhibit[]>([]);
  state = $state.raw<ViewState>(START);
  said = $state(""); // what is under the pointer
  failure = $state<string | null>(null);
  dark = $state(false);
  /** How a view writes what it shows to a file. */
  export = $state.raw<Exports | null>(null);

  readonly touching = new Touching(this);

  constructor(
    readonly source: Source,
    private readonly token: string | null,
  ) {
    this.exhibits = source.manifest.exhibits;
    this.apply(readFragment(location.hash, opening(this.exhibits[0])).state);
  }

  readonly exhibit: Exhibit = $derived.by(() => this.exhibitOf(this.state.exhibit));
  readonly layer: Layer = $derived.by(() => this.exhibit.layers[this.state.layer] ?? this.exhibit.layers[0]);
  readonly map: MapName = $derived(this.mapOf(this.state));
  /** What is chosen, where there is such a place. */
  readonly query: number | null = $derived.by(() => within(this.state.query, this.extentOf(this.state).queries));
  readonly key: number | null = $derived.by(() => within(this.state.key, this.extentOf(this.state).keys));
  readonly theme: Theme = $derived(theme(this.dark, this.state.ramp));
  readonly views: readonly ViewName[] = $derived.by(() => viewsOf(this.exhibit, this.source.live));

  exhibitOf(id: number): Exhibit {
    return this.exhibits.find((each) => each.id === id) ?? this.exhibits[0];
  }

  /** The name of an exhibit, and what it is of where that is not enough to tell it from the others. */
  titleOf(each: Exhibit): string {
    const alike = this.exhibits.filter((other) => other.name === each.name && !other.touched).length > 1;
    const name = plain(each.name, 40) || String(each.id);
    return [name, alike ? plain(each.about, 60) : "", each.touched ? "touched" : ""].filter(Boolean).join(" · ");
  }

  layerOf(choice: Choice): Layer {
    const { layers } = this.exhibitOf(choice.exhibit);
    return layers[choice.layer] ?? layers[0];
  }

  mapOf(choice: Choice): MapName {
    const layer = this.layerOf(choice);
    const chosen = choice.heads.filter((head) => head < layer.heads);
    const heads = chosen.length ? chosen : Array.from({ length: layer.heads }, (_, head) => head);
    const exhibit = this.exhibitOf(choice.exhibit);
    return { exhibit: exhibit.id, layer: layer.id, entry: Math.min(choice.entry, layer.sizes.length - 1), heads };
  }

  extentOf(choice: Choice): Extent {
    const [queries, keys] = this.layerOf(choice).sizes[this.mapOf(choice).entry];
    return { queries, keys };
  }

  sidesOf(choice: Choice): { query: Side; key: Side } {
    const { sides } = this.exhibitOf(choice.exhibit);
    const layer = this.layerOf(choice);
    return { query: sides[layer.query_side], key: sides[layer.key_side] };
  }

  /** What stands along the two axes, as it is. */
  tokensOf(choice: Choice): { queries: string[]; keys: string[] } {
    const { query, key } = this.sidesOf(choice);
    const extent = this.extentOf(choice);
    const { entry } = this.mapOf(choice);
    return { queries: namesOf(query, entry, extent.queries), keys: namesOf(key, entry, extent.keys) };
  }

  /** The same as short names. */
  namesOf(choice: Choice): Names {
    const { query, key } = this.sidesOf(choice);
    const tokens = this.tokensOf(choice);
    return {
      queries: query.kind === "text" ? names(tokens.queries) : tokens.queries,
      keys: key.kind === "text" ? names(tokens.keys) : tokens.keys,
      queryTitle: this.layerOf(choice).cross ? query.name : "query",
      keyTitle: this.layerOf(choice).cross ? key.name : "key",
    };
  }

  /** Change some of the state; a change of view can be gone back from. */
  set(change: Partial<ViewState>): void {
    const before = this.state;
    const moved = change.layer !== undefined || change.exhibit !== undefined || change.entry !== undefined;
    const next = { ...before, ...(moved && !sameExtent(this, before, change) ? UNPLACED : {}), ...change };
    this.apply(next);
    const address = writeFragment(this.token, this.state);
    try {
      if (next.view !== before.view) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    } catch {
      // A page within another may not be allowed an address of its own.
    }
  }

  /** As the address says, after going back or forth. */
  follow(): void {
    this.apply(readFragment(location.hash, opening(this.exhibits[0])).state);
  }

  add(exhibit: Exhibit): void {
    this.exhibits = [...this.exhibits.filter((each) => each.id !== exhibit.id), exhibit];
  }

  fail(failure: unknown): void {
    if (failure instanceof DOMException && failure.name === "AbortError") return;
    this.failure = failure instanceof Error ? failure.message : String(failure);
  }

  private apply(state: ViewState): void {
    const exhibit = this.exhibitOf(state.exhibit);
    const layer = Math.min(state.layer, exhibit.layers.length - 1);
    const possible = viewsOf(exhibit, this.source.live);
    const view = possible.includes(state.view) ? state.view : possible[0];
    const heads = state.heads.filter((head) => head < exhibit.layers[layer].heads);
    const entry = Math.min(state.entry, Math.max(0, exhibit.entries.length - 1));
    this.state = { ...state, exhibit: exhibit.id, layer, view, heads, entry };
  }
}

export interface Exports {
  readonly name: string; // of the file, without its ending
  png?: () => Promise<Blob>;
  svg?: () => string;
  csv?: () => string | Promise<string>;
  json?: () => string;
}

const UNPLACED: Partial<ViewState> = { query: null, key: null, spot: null };

function within(place: number | null, size: number): number | null {
  return place !== null && place < size ? place : null;
}

function sameExtent(session: Session, before: ViewState, change: Partial<ViewState>): boolean {
  const [one, other] = [session.extentOf(before), session.extentOf({ ...before, ...change })];
  return one.queries === other.queries && one.keys === other.keys;
}

/** Where to begin: with all heads at a glance, or with the one map where there is only one. */
function opening(exhibit: Exhibit): ViewState {
  const several = exhibit.layers.length > 1 || exhibit.layers[0].heads > 1;
  return { ...START, exhibit: exhibit.id, view: several ? "atlas" : "map" };
}

export function viewsOf(exhibit: Exhibit, live: boolean): ViewName[] {
  const found: ViewName[] = ["atlas", "map"];
  if (exhibit.sides.some((side) => side.kind === "text")) found.push("text");
  if (exhibit.sides.some((side) => side.kind === "image" || side.kind === "sound")) found.push("picture");
  if (exhibit.answer?.outputs.some((output) => output.steps?.length)) found.push("decode");
  if (live && exhibit.can.touch) found.push("touch");
  found.push("compare");
  return found;
}
