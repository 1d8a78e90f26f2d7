// Token text made fit to be shown. Tokens are data: they may hold control characters, turn the direction of the text
// around, pile up accents, be endless, or be nothing at all. What is returned is only ever drawn or set as text.

export const UNSHOWN = "\ufffd";
const JOINERS = new Set(["\u200c", "\u200d", "\ufe0e", "\ufe0f"]); // they only join or restyle their neighbours
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u;
const ACCENT = /[\p{Mn}\p{Me}]/u;
const SPACE = /\p{Zs}/u;
const MAX_ACCENTS = 2; // on one letter; Vietnamese needs two, mischief more

/** The text as one visible line of at most `limit` letters: ␊ for a line break, ␣ for a space at an end, … if cut. */
export function plain(text: string, limit = 24): string {
  const shown: string[] = [];
  let accents = 0;
  for (const letter of text.slice(0, 8 * limit + 64).normalize("NFC")) {
    accents = ACCENT.test(letter) ? accents + 1 : 0;
    if (accents > MAX_ACCENTS || JOINERS.has(letter)) continue;
    if (accents && shown.length) shown[shown.length - 1] += letter;
    else shown.push(visible(letter));
  }
  const marked = markedEnds(shown);
  return marked.length <= limit ? marked.join("") : marked.slice(0, limit - 1).join("") + "…";
}

const made = new Map<string, string>(); // the same tokens are drawn frame after frame
const MAX_MADE = 20_000;

/** As `plain`, but a token of nothing is ∅. */
export function label(text: string, limit = 24): string {
  const name = `${limit} ${text}`;
  const found = made.get(name);
  if (found !== undefined) return found;
  if (made.size >= MAX_MADE) made.clear();
  const shown = plain(text, limit) || "∅";
  made.set(name, shown);
  return shown;
}

function visible(letter: string): string {
  const code = letter.codePointAt(0)!;
  if (code < 32) return String.fromCodePoint(0x2400 + code); // the control pictures, in the order of the characters
  if (code === 127) return "␡";
  if (SPACE.test(letter)) return " ";
  return INVISIBLE.test(letter) ? UNSHOWN : letter;
}

function markedEnds(letters: string[]): string[] {
  const first = letters.findIndex((letter) => letter !== " ");
  if (first < 0) return letters.map(() => "␣");
  let last = letters.length - 1;
  while (letters[last] === " ") last--;
  return letters.map((letter, place) => (place < first || place > last ? "␣" : letter));
}
