import { expect, test } from "vitest";
import { type Edit, readEdits, sameEdit, toldEdit, writeEdits } from "../src/state/edits";
import { START, readFragment, writeFragment } from "../src/state/fragment";

const EDIT: Edit = {
  id: 5,
  of: 0,
  input: { source: "a b & c = d #\ud800" },
  changes: [
    { kind: "drop", layer: "encoder.0", heads: [1, 3] },
    { kind: "scale", layer: "encoder.0", heads: [0], factor: 2 },
    { kind: "uniform", layer: "encoder.0", heads: null },
    { kind: "forbid", layer: "encoder.0", heads: null, queries: [2], keys: null },
  ],
};

test("an edit is in the address and comes back from it", () => {
  const address = writeFragment("secret", { ...START, exhibit: 5, edits: [EDIT] });
  const { state, unread } = readFragment(address);
  expect(state.edits).toEqual([EDIT]);
  expect(unread).toBe(false);
});

test("an edit too long for an address is not written", () => {
  expect(writeEdits([{ ...EDIT, input: { source: "x".repeat(5000) } }])).toBe(null);
  expect(writeEdits([])).toBe(null);
});

test.each([
  "{",
  "7",
  "null",
  '[["5",0,{},[]]]',
  "[[5,-1,{},[]]]",
  "[[5,0,[],[]]]",
  '[[5,0,{"source":7},[]]]',
  "[[5,0,{},{}]]",
  '[[5,0,{},[{"kind":"explode","layer":"a"}]]]',
  '[[5,0,{},[{"kind":"drop","layer":"a","heads":[-1]}]]]',
  '[[5,0,{},[{"kind":"drop","layer":"a","heads":[true]}]]]',
  '[[5,0,{},[{"kind":"scale","layer":"a","heads":[0],"factor":true}]]]',
  '[[5,0,{},[{"kind":"scale","layer":"a","heads":[0]}]]]',
  "[" + "[5,0,{},[]],".repeat(4) + "[5,0,{},[]]]",
  `[[5,0,{"source":"${"x".repeat(5000)}"},[]]]`,
])("what is no edit is not taken for one, and said: %s", (text) => {
  expect(readEdits(text)).toContain(null);
});

test("the library's way of telling a change is the same edit", () => {
  const told = { kind: "drop", layer: "encoder.0", heads: [1], factor: 1, queries: null, keys: null } as const;
  const own = { kind: "drop", layer: "encoder.0", heads: [1] } as const;
  expect(sameEdit({ ...EDIT, changes: [told] }, { ...EDIT, id: 9, changes: [own] })).toBe(true);
  expect(sameEdit({ ...EDIT, changes: [own] }, EDIT)).toBe(false);
  expect(sameEdit(EDIT, null)).toBe(false);
});

test("edits are told apart in words", () => {
  expect(toldEdit(EDIT)).toBe(
    "source edited; encoder.0: head 1, 3 switched off; encoder.0: head 0 × 2; encoder.0: all heads looks everywhere alike; " +
      "encoder.0: all heads may not look from 2 at anywhere",
  );
});
