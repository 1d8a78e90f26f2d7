import { expect, test } from "vitest";
import { kept } from "../src/state/difference";

test("what stayed is told from what is new", () => {
  expect(kept(["deux", "cent", "un"], ["deux", "cents", "un"])).toEqual([true, false, true]);
  expect(kept([], ["a"])).toEqual([false]);
  expect(kept(["a", "b"], [])).toEqual([]);
  expect(kept([..."abcbdab"], [..."bdcaba"]).filter(Boolean)).toHaveLength(4);
});
