// Weights written as numbers: three significant digits, and no exponent before it is needed. NaN stands for what may
// not be looked at, +∞ for what is no number (see data/broken.ts).

import { BROKEN, type Told, numberOf } from "../data/broken";

export const NO_NUMBER = "NaN";

export function amount(told: Told): string {
  const value = numberOf(told);
  if (Number.isNaN(value)) return "–";
  if (value === BROKEN) return NO_NUMBER;
  if (value === -Infinity) return "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3) return value.toExponential(1).replaceAll("-", "−");
  return value.toPrecision(size >= 1 ? 4 : 3).replace(/^-/, "−");
}

export function percent(told: Told): string {
  const value = numberOf(told);
  if (Number.isNaN(value)) return "–";
  if (value === BROKEN) return NO_NUMBER;
  const hundredths = 100 * value;
  if (hundredths > 0 && hundredths < 0.1) return "<0.1 %";
  const digits = hundredths === 0 || (hundredths >= 10 && hundredths < 99) || hundredths >= 99.95 ? 0 : 1;
  return `${hundredths.toFixed(digits)} %`;
}
