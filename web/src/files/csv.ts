// Tables for spreadsheets. A field that a spreadsheet would take for a formula is given an apostrophe: tokens are
// the text of strangers. A number that is hidden is left empty; one that is none is NaN.

import { BROKEN } from "../data/broken";

const FORMULA = /^[=+\-@\t\r]/;

export function csv(head: readonly string[], rows: Iterable<readonly (string | number)[]>): string {
  const lines = [head.map(field).join(",")];
  for (const row of rows) lines.push(row.map(field).join(","));
  return lines.join("\r\n") + "\r\n";
}

function field(value: string | number): string {
  if (typeof value === "number") return Number.isNaN(value) ? "" : value === BROKEN ? "NaN" : String(value);
  const safe = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}
