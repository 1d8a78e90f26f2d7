import { expect, test } from "vitest";
import { label, plain } from "../src/draw/plain";

test("what cannot be seen is made visible", () => {
  expect(plain("a\nb\tc")).toBe("a␊b␉c");
  expect(plain("\u007f\u0000")).toBe("␡␀");
  expect(plain(" the ")).toBe("␣the␣");
  expect(plain("  ")).toBe("␣␣");
  expect(plain("a b")).toBe("a b");
});

test("nothing turns the direction of the text around", () => {
  for (const letter of "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c") {
    expect(plain(`a${letter}b`)).toBe("a\ufffdb");
  }
});

test("accents do not pile up, and a token is not endless", () => {
  expect(plain("e" + "\u0301".repeat(500))).toHaveLength(3); // é and two more
  expect(plain("ệ".normalize("NFD"))).toBe("ệ");
  expect(plain("x".repeat(5000))).toBe("x".repeat(23) + "…");
  expect(plain("😀".repeat(30), 4)).toBe("😀😀😀…");
});

test("half a character is shown as one that is not there", () => {
  expect(plain("\ud83d")).toBe("\ufffd");
});

test("markup is left as it is, to be set as text", () => {
  expect(plain("<script>alert(1)", 40)).toBe("<script>alert(1)");
  expect(label("")).toBe("∅");
});
