// Weights written as numbers: three significant digits, and no exponent before it is needed.

export function amount(value: number): string {
  if (Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4) return value.toExponential(1).replace("-", "−").replace("e−", "e−");
  return value.toPrecision(size >= 1 ? 4 : 3).replace(/^-/, "−");
}

export function percent(value: number): string {
  if (Number.isNaN(value)) return "–";
  const hundredths = 100 * value;
  return `${hundredths >= 10 ? hundredths.toFixed(0) : hundredths >= 0.1 ? hundredths.toFixed(1) : hundredths > 0 ? "<0.1" : "0"} %`;
}
