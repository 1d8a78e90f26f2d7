// Tokens as text: where a word begins, where a line ends, and how a piece of a word is told from a word.

import { label } from "./plain";

export interface Word {
  readonly place: number;
  readonly text: string;
  readonly spaced: boolean; // a space before it
  readonly ends: boolean; // a line break after it
}

/** Whether tokens carry the space before them, are words without any, or are single letters, the space among them. */
export type Spelling = "spaced" | "words" | "letters";

const SAMPLE = 2000;
const LEADING = /^(?: |▁|Ġ)(?=.)/u;

export function spelling(tokens: readonly string[]): Spelling {
  const some = tokens.slice(0, SAMPLE);
  if (some.some((token, place) => place > 0 && LEADING.test(token))) return "spaced";
  return some.includes(" ") && some.filter((token) => [...token].length > 1).length * 4 < some.length ? "letters" : "words";
}

export function words(tokens: readonly string[]): Word[] {
  const kind = spelling(tokens);
  return tokens.map((token, place) => ({
    place,
    text: label(kind === "spaced" ? token.replace(LEADING, "") : token, 40),
    spaced: place > 0 && (kind === "words" || (kind === "spaced" && LEADING.test(token))),
    ends: token.includes("\n"),
  }));
}

/** Names for labels: the space before a word is left out, and a piece that goes on with one begins with a dot. */
export function names(tokens: readonly string[]): string[] {
  if (spelling(tokens) !== "spaced") return [...tokens];
  return tokens.map((token, place) => named(token, place > 0));
}

/** Names, in the same way, of tokens that could have stood at a place of a text. */
export function following(tokens: readonly string[], place: number, others: readonly string[]): string[] {
  if (spelling([...tokens, ...others]) !== "spaced") return [...others];
  return others.map((token) => named(token, place > 0));
}

function named(token: string, behind: boolean): string {
  if (LEADING.test(token)) return token.replace(LEADING, "");
  return behind && /^[\p{L}\p{N}]/u.test(token) && !token.startsWith("<") ? `·${token}` : token;
}
