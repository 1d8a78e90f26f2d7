// What the page is told about the model first: everything but the weights (see PROTOCOL.md).

import type { Told } from "./broken";

export interface Manifest {
  readonly version: 1;
  readonly title: string;
  readonly library: string;
  readonly mode: "served" | "exported";
  readonly tile: number;
  readonly exhibits: readonly Exhibit[];
}

export interface Exhibit {
  readonly id: number;
  readonly name: string;
  readonly about: string;
  readonly kind: string;
  readonly entries: readonly Entry[];
  readonly sides: readonly Side[];
  readonly layers: readonly Layer[];
  readonly answer: Answer | null;
  readonly can: { readonly touch: boolean; readonly input: readonly string[]; readonly importance: boolean };
  readonly inputs?: Readonly<Record<string, string>>; // what the person gave, to be edited
  readonly touched: Touched | null;
}

export interface Entry {
  readonly name: string;
  readonly score: Told | null;
  readonly logprob: Told | null;
}

export interface TextSide {
  readonly kind: "text";
  readonly name: string;
  readonly tokens: readonly (readonly string[])[];
}

export interface PictureSide {
  readonly kind: "image" | "sound";
  readonly name: string;
  readonly grid: readonly [number, number];
  readonly special: readonly string[];
  readonly pixels: readonly [number, number];
  readonly seconds?: number;
}

export interface PlainSide {
  readonly kind: "plain";
  readonly name: string;
}

export type Side = TextSide | PictureSide | PlainSide;

export interface Layer {
  readonly id: number;
  readonly name: string;
  readonly group: string;
  readonly heads: number;
  readonly sizes: readonly (readonly [number, number])[];
  readonly query_side: number;
  readonly key_side: number;
  readonly cross: boolean;
  readonly offset: number;
  readonly form: readonly Form[] | null; // of each entry, in an exported page
}

/** How an exported page holds weights, which are close to those of the model and not the same. */
export interface Form {
  readonly kind: "qk" | "maps";
  readonly why: string;
}

export interface Answer {
  readonly outputs: readonly Output[];
  readonly search: readonly (readonly Branch[])[] | null; // what each step of a beam had to choose from
}

export interface Branch {
  readonly text: string; // a beginning, all of it
  readonly token: string; // its last token
  readonly logprob: Told;
  readonly fate: "lives" | "ended" | "fell";
  readonly leads: readonly number[]; // the entries that begin with it
  readonly until: number; // the last step at which something of it was left
}

export interface Output {
  readonly text: string | null;
  readonly classes: readonly (readonly [string, Told])[] | null;
  readonly steps: readonly Step[] | null;
}

export interface Step {
  readonly token: string;
  readonly probability: Told | null;
  readonly position: number;
  readonly alternatives: readonly (readonly [string, Told])[];
}

export type Change =
  | { readonly kind: "drop"; readonly layer: string; readonly heads: readonly number[] | null }
  | { readonly kind: "scale"; readonly layer: string; readonly heads: readonly number[] | null; readonly factor: number }
  | { readonly kind: "uniform"; readonly layer: string; readonly heads: readonly number[] | null }
  | {
      readonly kind: "forbid";
      readonly layer: string;
      readonly heads: readonly number[] | null;
      readonly queries: readonly number[] | null;
      readonly keys: readonly number[] | null;
    };

export interface Touched {
  readonly of: number;
  readonly changes: readonly Change[];
  readonly input: Readonly<Record<string, string>>;
}

export interface TouchRequest {
  readonly exhibit: number;
  readonly input: Readonly<Record<string, string>>;
  readonly changes: readonly Change[];
}

/** The text of each position of a side: tokens, patches named by their place, or numbers. */
export function namesOf(side: Side, entry: number, count: number): string[] {
  if (side.kind === "text") {
    const tokens = side.tokens[Math.min(entry, side.tokens.length - 1)] ?? [];
    return Array.from({ length: count }, (_, place) => tokens[place] ?? "");
  }
  if (side.kind === "plain") return Array.from({ length: count }, (_, place) => String(place));
  return Array.from({ length: count }, (_, place) => patchName(side, place));
}

function patchName(side: PictureSide, place: number): string {
  if (place < side.special.length) return side.special[place];
  const patch = place - side.special.length;
  const [rows, columns] = side.grid;
  if (side.kind === "sound" && rows === 1) {
    return side.seconds === undefined ? `frame ${patch}` : `${((patch * side.seconds) / columns).toFixed(2)} s`;
  }
  return `${Math.floor(patch / columns)},${patch % columns}`;
}
