import { expect, test } from "vitest";
import { roomFor } from "../src/draw/edges";
import { fitting, widthOf } from "../src/draw/measure";

test("a label is cut to its room, and whole where there is enough", () => {
  expect(fitting("hundred", 14, widthOf("hundred", 14))).toBe("hundred");
  const cut = fitting("hundred and ninety", 14, 60);
  expect(cut.endsWith("…")).toBe(true);
  expect(widthOf(cut, 14)).toBeLessThanOrEqual(60);
  expect(fitting("hundred", 14, 0)).toBe("h…");
});

test("a map leaves its labels the room they take", () => {
  const names = { queries: ["nine", "hundred"], keys: ["a"], queryTitle: "query", keyTitle: "key" };
  const { left, top } = roomFor({ ...names, keys: ["0.02 s"] });
  expect(fitting("0.02 s", 14, top - 7 - 16)).toBe("0.02 s"); // upright, under the titles
  expect(fitting("hundred", 14, left - 9)).toBe("hundred");
});
