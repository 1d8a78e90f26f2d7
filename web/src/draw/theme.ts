// The colours of a page, light or dark, as the pictures need them.

import { type RampName, css, differenceTable, rampTable, shade } from "./colours";

export interface Theme {
  readonly dark: boolean;
  readonly ramp: RampName;
  readonly paper: string;
  readonly ink: string;
  readonly faint: string;
  readonly line: string;
  readonly bar: string;
  readonly mark: string; // around what is chosen: a hue the ramp does not have
  readonly hidden: number; // a pixel that may not be looked at
  readonly hiddenInk: string;
  readonly broken: number; // a pixel that is no number: a hue no ramp has, and hatched
  readonly brokenInk: string;
  readonly hatch: string;
  readonly table: Uint32Array;
  readonly difference: Uint32Array;
}

const made = new Map<string, Theme>();

export function theme(dark: boolean, ramp: RampName): Theme {
  const name = `${ramp} ${dark}`;
  if (!made.has(name)) made.set(name, build(dark, ramp));
  return made.get(name)!;
}

function build(dark: boolean, ramp: RampName): Theme {
  const [warm, light, low] = dark ? [0x57, 0x47, 0x0a] : [0xff, 0xee, 0x9e];
  const [red, green, blue] = dark ? [0x24, 0x22, 0x29] : [0xe9, 0xe7, 0xec];
  return {
    dark,
    ramp,
    paper: dark ? "#17151b" : "#ffffff",
    ink: dark ? "#ece9f1" : "#221d2d",
    faint: dark ? "#9d96a8" : "#6f687b",
    line: dark ? "#3a3542" : "#d9d5df",
    bar: css(shade(0.55, ramp, dark)),
    mark: dark ? "#35c4dc" : "#007f94",
    hidden: pixel(red, green, blue),
    hiddenInk: css([red, green, blue]),
    broken: pixel(warm, light, low),
    brokenInk: css([warm, light, low]),
    hatch: dark ? "#f2cf3c" : "#8a6a00",
    table: rampTable(ramp, dark),
    difference: differenceTable(dark),
  };
}

function pixel(red: number, green: number, blue: number): number {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}
