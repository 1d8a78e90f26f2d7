// What is looked at and how: one object that every view reads and changes.

import { type Exhibit, type Form, type Layer, type Side, namesOf } from "../data/manifest";
import { type MapName, type Source, mapKey } from "../data/source";
import type { Names } from "../draw/edges";
import { plain } from "../draw/plain";
import { names } from "../draw/words";
import { type Theme, theme } from "../draw/theme";
import type { Extent } from "../draw/viewport";
import { Refused, Unreachable } from "../data/failures";
import { type Edit, editOf, sameEdit, toldEdit } from "./edits";
import { Touching } from "./touching.svelte";
import { type Choice, START, type ViewName, type ViewState, readFragment, writeFragment } from "./fragment";

export class Session {
  exhibits = $state.raw<readonly Exhibit[]>([]);
  state = $state.raw<ViewState>(START);
  said = $state(""); // what is under the pointer
  failure = $state<string | null>(null);
  gone = $state<string | null>(null); // the library, and why that is thought
  lost = $state<string | null>(null); // what the address says and is not shown
  making = $state(false); // the touched exhibits of an address
  tries = $state(0); // with every one, all is asked anew
  dark = $state(false);
  /** How a view writes what it shows to a file. */
  export = $state.raw<Exports | null>(null);

  readonly touching = new Touching(this);
  private named: MapName | null = null;

  constructor(
    readonly source: Source,
    private readonly token: string | null,
  ) {
    this.exhibits = source.manifest.exhibits;
    this.follow();
  }

  readonly exhibit: Exhibit = $derived.by(() => this.exhibitOf(this.state.exhibit));
  readonly layer: Layer = $derived.by(() => this.exhibit.layers[this.state.layer] ?? this.exhibit.layers[0]);
  /** How the weights are held; null where the library computes them. */
  readonly form: Form | null = $derived.by(() => this.layer.form?.[this.map.entry] ?? null);
  /** The same value as long as it names the same map, so that a step of the cursor asks for nothing again. */
  readonly map: MapName = $derived.by(() => {
    const next = this.mapOf(this.state);
    if (!this.named || mapKey(this.named) !== mapKey(next)) this.named = next;
    return this.named;
  });
  /** What is chosen, where there is such a place. */
  readonly query: number | null = $derived.by(() => within(this.state.query, this.extentOf(this.state).queries));
  readonly key: number | null = $derived.by(() => within(this.state.key, this.extentOf(this.state).keys));
  readonly theme: Theme = $derived(theme(this.dark, this.state.ramp));
  readonly views: readonly ViewName[] = $derived.by(() => viewsOf(this.exhibit, this.source.live));

  exhibitOf(id: number): Exhibit {
    return this.exhibits.find((each) => each.id === id) ?? this.exhibits[0];
  }

  /** The title of an exhibit: its name, its changes, and its run where several exhibits have the same name. */
  titleOf(each: Exhibit): string {
    const alike = this.exhibits.filter((other) => other.name === each.name && !other.touched).length > 1;
    const name = plain(each.name, 40) || String(each.id);
    const touched = each.touched ? `touched: ${plain(toldEdit(each.touched), 70)}` : "";
    const title = [name, alike ? plain(each.about, 60) : "", touched].filter(Boolean).join(" · ");
    const twice = each.touched && this.exhibits.some(({ id, name, touched }) => id !== each.id && name === each.name && touched && toldEdit(touched) === toldEdit(each.touched!));
    return twice ? `${title} (${each.id})` : title;
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
    this.write(next.view !== before.view);
  }

  /** As the address says, at the start and after going back or forth. */
  follow(): void {
    const { state, unread } = readFragment(location.hash, opening(this.exhibits[0]));
    const missing = state.edits.filter((edit) => !sameEdit(edit, this.editOf(edit.id)));
    const known = (id: number) => this.exhibits.some((each) => each.id === id) || state.edits.some((edit) => edit.id === id);
    if (unread) this.lost = "The change to the model in this address cannot be read: the model is shown as it is.";
    else if (!known(state.exhibit)) this.lost = `Exhibit ${state.exhibit} of this address is no longer there: “${plain(this.exhibits[0].name, 40)}” is shown instead.`;
    if (missing.length) void this.make(missing, state);
    else this.shown(state);
  }

  add(exhibit: Exhibit): void {
    this.exhibits = [...this.exhibits.filter((each) => each.id !== exhibit.id), exhibit];
  }

  fail(failure: unknown): void {
    if (failure instanceof DOMException && failure.name === "AbortError") return;
    const said = failure instanceof Error ? failure.message : String(failure);
    const again = failure instanceof Refused && failure.letGo ? this.editOf(failure.exhibit!) : null;
    if (failure instanceof Unreachable) this.gone = said;
    else if (again && !this.making) void this.make([again], this.state);
    else if (!again) this.failure = said;
  }

  /** Check the connection; when the server answers, the views are mounted again and reload their data. */
  async retry(): Promise<void> {
    try {
      await this.source.check();
      [this.gone, this.failure] = [null, null];
      this.tries++;
    } catch (failure) {
      this.gone = failure instanceof Error ? failure.message : String(failure);
    }
  }

  /** Make touched exhibits that are not there (any more) again, and show what a state says of them. */
  private async make(missing: readonly Edit[], state: ViewState): Promise<void> {
    this.making = true;
    const instead = new Map<number, number>();
    this.apply({ ...state, exhibit: missing.find((edit) => edit.id === state.exhibit)?.of ?? state.exhibit, other: null });
    for (const { id, of, input, changes } of missing) {
      try {
        const made = await this.source.touch({ exhibit: of, input, changes });
        this.exhibits = this.exhibits.filter((each) => each.id !== id || !each.touched);
        this.add(made);
        instead.set(id, made.id);
      } catch (failure) {
        if (failure instanceof Unreachable) this.gone = failure.message;
        const reason = failure instanceof Error ? failure.message : String(failure);
        this.lost = `The change in this address (${plain(toldEdit({ input, changes }), 80)}) could not be made again: ${reason}. The model is shown as it is.`;
        instead.set(id, of);
      }
    }
    const now = (id: number) => instead.get(id) ?? id;
    const edits = state.edits.map((edit) => ({ ...edit, id: now(edit.id) }));
    this.shown({ ...state, edits, exhibit: now(state.exhibit), other: state.other && { ...state.other, exhibit: now(state.other.exhibit) } });
    this.making = false;
    this.write(false);
  }

  /** A state all of whose exhibits are there. */
  private shown(state: ViewState): void {
    const edits = state.edits.filter((edit) => sameEdit(edit, this.editOf(edit.id)));
    if (state.view === "touch" && edits.length) this.touching.restore(edits[0], this.exhibitOf(edits[0].id));
    this.apply(state);
  }

  private editOf(id: number): Edit | null {
    const found = this.exhibits.find((each) => each.id === id);
    return found ? editOf(found) : null;
  }

  private write(further: boolean): void {
    const address = writeFragment(this.token, this.state);
    try {
      if (further) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    } catch {
      // A page within another may not be allowed an address of its own.
    }
  }

  private apply(state: ViewState): void {
    const exhibit = this.exhibitOf(state.exhibit);
    const layer = Math.min(state.layer, exhibit.layers.length - 1);
    const possible = viewsOf(exhibit, this.source.live);
    const view = possible.includes(state.view) ? state.view : possible[0];
    const heads = state.heads.filter((head) => head < exhibit.layers[layer].heads);
    const entry = Math.min(state.entry, Math.max(0, exhibit.entries.length - 1));
    const named = [exhibit.id, state.other?.exhibit, view === "touch" ? this.touching.result?.id : undefined];
    const edits = [...new Set(named)].map((id) => (id === undefined ? null : this.editOf(id))).filter((edit) => edit !== null);
    this.state = { ...state, exhibit: exhibit.id, layer, view, heads, entry, edits };
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
