import { expect, test } from "vitest";
import { differenceTable, rampTable, shade, shadeDifference } from "../src/draw/colours";

test("the ramp is that of the printed pictures", () => {
  // Computed by regard.sight.pictures.colours.shade.
  const printed = [
    [0, [253, 244, 237]],
    [0.1, [242, 212, 193]],
    [0.25, [230, 162, 135]],
    [0.5, [201, 71, 88]],
    [0.77, [112, 20, 97]],
    [1, [33, 14, 57]],
  ] as const;
  for (const [weight, colour] of printed) expect(shade(weight)).toEqual(colour);
});

test("lightness falls all the way in every ramp, and rises on a dark page", () => {
  const light = ([red, green, blue]: readonly number[]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  for (const ramp of ["ember", "sea", "grey"] as const) {
    for (let step = 1; step <= 40; step++) {
      expect(light(shade(step / 40, ramp))).toBeLessThan(light(shade((step - 1) / 40, ramp)));
      expect(light(shade(step / 40, ramp, true))).toBeGreaterThan(light(shade((step - 1) / 40, ramp, true)));
    }
  }
});

test("what is outside, or no number, is cut off", () => {
  expect(shade(7)).toEqual(shade(1));
  expect(shade(-1)).toEqual(shade(0));
  expect(shade(NaN)).toEqual(shade(0));
  expect(shadeDifference(-9)).toEqual(shadeDifference(-1));
});

test("a table holds the colours as pixels", () => {
  const bytes = new Uint8Array(rampTable("ember", false).buffer);
  expect([...bytes.slice(0, 4)]).toEqual([253, 244, 237, 255]);
  expect([...bytes.slice(-4)]).toEqual([33, 14, 57, 255]);
});

test("less is bluer and more is redder, and no difference is the page", () => {
  const [lessRed, , lessBlue] = shadeDifference(-1);
  const [moreRed, , moreBlue] = shadeDifference(1);
  expect(lessBlue).toBeGreaterThan(lessRed);
  expect(moreRed).toBeGreaterThan(moreBlue);
  const middle = shadeDifference(0);
  expect(new Set(middle).size).toBe(1);
  expect(differenceTable(false)).toHaveLength(256);
});
