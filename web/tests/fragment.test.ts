import { expect, test } from "vitest";
import { START, type ViewState, readFragment, writeFragment } from "../src/state/fragment";

test("what is written is read back", () => {
  const state: ViewState = {
    view: "compare",
    exhibit: 2,
    layer: 7,
    heads: [0, 3],
    entry: 1,
    query: 4096,
    key: 0,
    spot: { query: 12.5, key: 900, zoom: 31.25 },
    statistic: "peak",
    curve: "log",
    ramp: "sea",
    theme: "dark",
    sort: "entropy",
    form: "lines",
    step: 3,
    other: { exhibit: 1, layer: 7, entry: 0, heads: [] },
    table: true,
    backwards: true,
    edits: [],
  };
  expect(readFragment(writeFragment("a-token_1", state))).toEqual({ token: "a-token_1", state, unread: false });
  expect(readFragment(writeFragment(null, START))).toEqual({ token: null, state: START, unread: false });
});

test("the token stays first, and what is usual is not said", () => {
  expect(writeFragment("t", START)).toBe("#token=t&view=atlas");
});

test("nonsense is passed over", () => {
  const { state } = readFragment("#view=<script>&layer=-1&heads=x.2&at=1_2&sort=%3Cb%3E&other=1_2&curve=cubic&query=1e3");
  expect(state).toEqual({ ...START, heads: [2] });
});
