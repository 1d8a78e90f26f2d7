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
    table: rampTable(ramp, dark),
    difference: differenceTable(dark),
  };
}

function pixel(red: number, green: number, blue: number): number {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}
