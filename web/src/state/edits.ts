// What was done to a model, in the address: a link or a reload runs the model again with the same change.

import type { Change, Exhibit, Touched } from "../data/manifest";

/** A touched exhibit: the number it has here, and all it takes to make it again. */
export interface Edit extends Touched {
  readonly id: number;
}

const LONGEST = 4000; // letters: what every browser and most programs keep of a link
const MAX_EDITS = 4; // exhibits
const CHANGES = 256;
const CHOSEN = 4096; // heads, queries or keys of one change

/** What an exhibit is made by; null where it is as the model left it. */
export function editOf({ id, touched }: Exhibit): Edit | null {
  return touched && { id, of: touched.of, input: touched.input, changes: touched.changes.map(spare) };
}

export function sameEdit(one: Edit, other: Edit | null): boolean {
  return other !== null && one.of === other.of && JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

function sorted({ input, changes }: Edit): unknown {
  return [Object.entries(input).sort(([one], [other]) => (one < other ? -1 : 1)), changes.map(spare)];
}

/** JSON, which writes half a character as its number; null where it is too long for an address. */
export function writeEdits(edits: readonly Edit[]): string | null {
  const text = JSON.stringify(edits.map(({ id, of, input, changes }) => [id, of, input, changes.map(spare)]));
  return edits.length && encodeURIComponent(text).length <= LONGEST ? text : null;
}

/** What an address says; whatever in it is no edit is left out, and null says that something was. */
export function readEdits(text: string | undefined): (Edit | null)[] {
  if (text === undefined) return [];
  let told: unknown = null;
  try {
    if (text.length <= LONGEST) told = JSON.parse(text);
  } catch {
    // Not JSON.
  }
  return Array.isArray(told) && told.length <= MAX_EDITS ? told.map(edit) : [null];
}

function edit(told: unknown): Edit | null {
  if (!Array.isArray(told)) return null;
  const [id, of, input, changes] = told as unknown[];
  if (!isPlace(id) || !isPlace(of) || !isTexts(input) || !Array.isArray(changes) || changes.length > CHANGES) return null;
  const found = changes.map(change);
  return found.every((each) => each !== null) ? { id, of, input, changes: found } : null;
}

function change(told: unknown): Change | null {
  if (typeof told !== "object" || told === null) return null;
  const { kind, layer, heads = null, factor, queries = null, keys = null } = told as Record<string, unknown>;
  if (typeof layer !== "string" || ![heads, queries, keys].every(isSome)) return null;
  if (kind === "scale" && !(typeof factor === "number" && Number.isFinite(factor))) return null;
  if (!["drop", "scale", "uniform", "forbid"].includes(kind as string)) return null;
  return spare({ kind, layer, heads, factor, queries, keys } as Change);
}

/** Only what a kind of change has. */
function spare(change: Change): Change {
  const { kind, layer } = change;
  switch (kind) {
    case "drop":
      return { kind, layer, heads: change.heads };
    case "scale":
      return { kind, layer, heads: change.heads, factor: change.factor };
    case "uniform":
      return { kind, layer, heads: change.heads };
    case "forbid":
      return { kind, layer, heads: change.heads, queries: change.queries, keys: change.keys };
  }
}

function isPlace(told: unknown): told is number {
  return typeof told === "number" && Number.isInteger(told) && told >= 0 && told < 2 ** 31;
}

function isSome(told: unknown): boolean {
  return told === null || (Array.isArray(told) && told.length <= CHOSEN && told.every(isPlace));
}

function isTexts(told: unknown): told is Record<string, string> {
  return typeof told === "object" && told !== null && !Array.isArray(told) && Object.values(told).every((each) => typeof each === "string");
}

/** One change in words. */
export function told(change: Change): string {
  const heads = change.heads === null ? "all heads" : `head ${change.heads.join(", ")}`;
  const some = (places: readonly number[] | null) => places?.join(", ") ?? "anywhere";
  switch (change.kind) {
    case "drop":
      return `${change.layer}: ${heads} switched off`;
    case "scale":
      return `${change.layer}: ${heads} × ${change.factor}`;
    case "uniform":
      return `${change.layer}: ${heads} looks everywhere alike`;
    case "forbid":
      return `${change.layer}: ${heads} may not look from ${some(change.queries)} at ${some(change.keys)}`;
  }
}

/** All of them. */
export function toldEdit({ input, changes }: Pick<Touched, "input" | "changes">): string {
  return [...Object.keys(input).map((name) => `${name} edited`), ...changes.map(told)].join("; ") || "run again";
}
