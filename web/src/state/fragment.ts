// The view in the address: everything that is chosen, so that a link or a reload shows the same.

import { type Edit, readEdits, writeEdits } from "./edits";
import type { RampName } from "../draw/colours";
import type { Statistic } from "../draw/tileimages";
import { CURVES, type Curve } from "../draw/tone";
import type { Spot } from "../draw/viewport";

export const VIEWS = ["atlas", "map", "text", "picture", "decode", "touch", "compare"] as const;
export type ViewName = (typeof VIEWS)[number];
export type ThemeChoice = "auto" | "light" | "dark";

/** Which weights: a layer and some of its heads (none named: all, averaged), for one entry of one exhibit. */
export interface Choice {
  readonly exhibit: number;
  readonly layer: number;
  readonly heads: readonly number[];
  readonly entry: number;
}

export interface ViewState extends Choice {
  readonly view: ViewName;
  readonly query: number | null; // what is chosen
  readonly key: number | null;
  readonly spot: Spot | null; // where the map is looked at; null: all of it
  readonly statistic: Statistic;
  readonly curve: Curve;
  readonly ramp: RampName;
  readonly theme: ThemeChoice;
  readonly sort: string; // how the atlas is ordered
  readonly form: "flow" | "lines" | null; // of the text; null: what suits its length
  readonly step: number; // of generation
  readonly other: Choice | null; // what is compared with
  readonly table: boolean; // the map as a table, too
  readonly backwards: boolean; // in a picture, who looks at the chosen patch
  readonly edits: readonly Edit[]; // what the touched exhibits of all this are made by
}

export const START: ViewState = {
  view: "atlas",
  exhibit: 0,
  layer: 0,
  heads: [],
  entry: 0,
  query: null,
  key: null,
  spot: null,
  statistic: "mass",
  curve: "root",
  ramp: "ember",
  theme: "auto",
  sort: "layer",
  form: null,
  step: 0,
  other: null,
  table: false,
  backwards: false,
  edits: [],
};

type Text = string | undefined;

export interface Said {
  readonly token: string | null;
  readonly state: ViewState;
  readonly unread: boolean; // a change to the model that is none, or more than an address holds
}

/** The state a fragment describes; what it does not say, or says wrongly, is as in `otherwise`. */
export function readFragment(fragment: string, otherwise: ViewState = START): Said {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const text = (name: string): Text => given.get(name) ?? undefined;
  const edits = readEdits(text("touched"));
  const state: ViewState = {
    view: among(text("view"), VIEWS, otherwise.view),
    exhibit: whole(text("exhibit")) ?? otherwise.exhibit,
    layer: whole(text("layer")) ?? otherwise.layer,
    heads: text("heads") === undefined ? otherwise.heads : list(text("heads")),
    entry: whole(text("entry")) ?? otherwise.entry,
    query: whole(text("query")) ?? otherwise.query,
    key: whole(text("key")) ?? otherwise.key,
    spot: spot(text("at")) ?? otherwise.spot,
    statistic: among(text("cells"), ["mass", "peak"], otherwise.statistic),
    curve: among(text("curve"), CURVES, otherwise.curve),
    ramp: among(text("colours"), ["ember", "sea", "grey"], otherwise.ramp),
    theme: among(text("theme"), ["auto", "light", "dark"], otherwise.theme),
    sort: text("sort")?.match(/^[a-z]{1,20}$/)?.[0] ?? otherwise.sort,
    form: among<"flow" | "lines" | null>(text("form"), ["flow", "lines"], otherwise.form),
    step: whole(text("step")) ?? otherwise.step,
    other: choice(text("other")) ?? otherwise.other,
    table: text("table") === "1" || otherwise.table,
    backwards: text("back") === "1" || otherwise.backwards,
    edits: edits.filter((each) => each !== null),
  };
  return { token: given.get("token"), state, unread: edits.includes(null) };
}

/** The shortest fragment that says all that differs from the start. */
export function writeFragment(token: string | null, state: ViewState): string {
  const said: [string, string][] = [];
  const say = (name: string, value: string | number | null, usual: string | number | null) => {
    if (value !== usual && value !== null) said.push([name, String(value)]);
  };
  say("token", token, null);
  say("view", state.view, null);
  say("exhibit", state.exhibit, START.exhibit);
  say("layer", state.layer, START.layer);
  say("heads", state.heads.join("."), "");
  say("entry", state.entry, START.entry);
  say("query", state.query, null);
  say("key", state.key, null);
  if (state.spot) {
    const { query, key, zoom } = state.spot;
    say("at", [query.toFixed(1), key.toFixed(1), zoom.toPrecision(4)].join("_"), null);
  }
  say("cells", state.statistic, START.statistic);
  say("curve", state.curve, START.curve);
  say("colours", state.ramp, START.ramp);
  say("theme", state.theme, START.theme);
  say("sort", state.sort, START.sort);
  say("form", state.form, null);
  say("step", state.step, START.step);
  if (state.other) {
    const { exhibit, layer, entry, heads } = state.other;
    say("other", [exhibit, layer, entry, heads.join(".")].join("_"), null);
  }
  if (state.table) say("table", 1, null);
  if (state.backwards) say("back", 1, null);
  say("touched", writeEdits(state.edits), null);
  return "#" + said.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

function whole(text: Text): number | undefined {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

function list(text: Text): number[] {
  return (text ?? "").split(".").map(whole).filter((each) => each !== undefined);
}

function among<Kind extends string | null>(text: Text, kinds: readonly Kind[], otherwise: Kind): Kind {
  return kinds.find((kind) => kind === text) ?? otherwise;
}

function spot(text: Text): Spot | undefined {
  const [query, key, zoom] = (text ?? "").split("_").map(Number);
  return [query, key, zoom].every((each) => Number.isFinite(each) && each >= 0) ? { query, key, zoom } : undefined;
}

function choice(text: Text): Choice | undefined {
  const [exhibit, layer, entry, heads] = (text ?? "").split("_");
  const [first, second, third] = [whole(exhibit), whole(layer), whole(entry)];
  if (first === undefined || second === undefined || third === undefined) return undefined;
  return { exhibit: first, layer: second, entry: third, heads: list(heads) };
}
