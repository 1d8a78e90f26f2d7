// What was done to a model and what became of its answer, as a table and as JSON.

import { numberOf } from "../data/broken";
import type { Change, Exhibit } from "../data/manifest";
import { told } from "../state/edits";
import { outputOf } from "../state/steps";
import { csv } from "./csv";

export interface Done {
  readonly base: Exhibit;
  readonly result: Exhibit | null;
  readonly changes: readonly Change[];
  readonly input: Readonly<Record<string, string>>;
  readonly entry: number;
}

const HEAD = ["of", "what", "place", "text", "probability"];

export function touchedCsv({ base, result, changes, input, entry }: Done): string {
  const rows: (string | number)[][] = [
    ...Object.entries(input).map(([name, text]) => ["change", name, NaN, text, NaN]),
    ...changes.map((change, place) => ["change", "attention", place, told(change), NaN]),
    ...answerRows("answer", base, entry),
    ...(result ? answerRows("touched", result, entry) : []),
  ];
  return csv(HEAD, rows);
}

function answerRows(of: string, exhibit: Exhibit, entry: number): (string | number)[][] {
  const output = outputOf(exhibit, entryIn(exhibit, entry));
  const logprob = exhibit.entries[entryIn(exhibit, entry)]?.logprob;
  return [
    ...(output?.text == null ? [] : [[of, "text", NaN, output.text, logprob == null ? NaN : Math.exp(numberOf(logprob))]]),
    ...(output?.classes ?? []).map(([name, part], place) => [of, "class", place, name, numberOf(part)]),
    ...(output?.steps ?? []).map(({ token, probability }, place) => [of, "token", place, token, probability === null ? NaN : numberOf(probability)]),
  ];
}

export function touchedJson({ base, result, changes, input, entry }: Done): string {
  const answer = (exhibit: Exhibit) => ({
    ...outputOf(exhibit, entryIn(exhibit, entry)),
    logprob: exhibit.entries[entryIn(exhibit, entry)]?.logprob ?? null,
  });
  const all = { name: base.name, about: base.about, input: { ...base.inputs, ...input }, changes, answer: answer(base), touched: result && answer(result) };
  return JSON.stringify(all, null, 2) + "\n";
}

function entryIn(exhibit: Exhibit, entry: number): number {
  return Math.min(entry, Math.max(0, exhibit.entries.length - 1));
}
