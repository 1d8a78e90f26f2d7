// The colours of weights. Each ramp falls in lightness at one rate, so that the order of two weights is seen without
// telling hues apart. "ember" is the ramp of the library's printed pictures; on a dark page every ramp is turned over.

export type Rgb = readonly [number, number, number];
export type RampName = "ember" | "sea" | "grey";

// Equally spaced points on curves through OKLab (Ottosson 2020): lightness, green–red, blue–yellow.
const POINTS: Record<RampName, readonly Rgb[]> = {
  ember: [
    [0.972, 0.006, 0.012],
    [0.903, 0.022, 0.03],
    [0.836, 0.042, 0.048],
    [0.771, 0.067, 0.06],
    [0.707, 0.092, 0.068],
    [0.644, 0.128, 0.065],
    [0.581, 0.158, 0.046],
    [0.518, 0.173, 0.015],
    [0.456, 0.169, -0.022],
    [0.397, 0.146, -0.056],
    [0.34, 0.109, -0.082],
    [0.282, 0.068, -0.091],
    [0.22, 0.04, -0.069],
  ],
  sea: [
    [0.972, -0.008, 0.006],
    [0.85, -0.05, 0.012],
    [0.725, -0.082, -0.01],
    [0.6, -0.07, -0.045],
    [0.475, -0.03, -0.085],
    [0.35, 0.0, -0.09],
    [0.22, 0.01, -0.06],
  ],
  grey: [
    [0.972, 0, 0],
    [0.2, 0, 0],
  ],
};

// Less to the left, more to the right of a middle that is the page.
const LESS: Rgb = [0.52, -0.045, -0.135];
const MORE: Rgb = [0.58, 0.15, 0.11];
const MIDDLE = { light: [0.972, 0, 0], dark: [0.22, 0, 0] } as const;

/** After Okabe and Ito (2008), without their yellow, which paper swallows. */
export const HUES: readonly Rgb[] = [
  [0, 114, 178],
  [213, 94, 0],
  [0, 158, 115],
  [204, 121, 167],
  [230, 159, 0],
  [86, 180, 233],
  [136, 34, 85],
  [120, 120, 120],
];

export const STEPS = 256;

/** sRGB of a point in OKLab; what a screen cannot show is cut off. */
export function srgb([lightness, a, b]: Rgb): Rgb {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const [red, green, blue] = linear.map((value) => {
    const held = Math.min(1, Math.max(0, value));
    return Math.round(255 * (held <= 0.0031308 ? 12.92 * held : 1.055 * held ** (1 / 2.4) - 0.055));
  });
  return [red, green, blue];
}

function between(points: readonly Rgb[], part: number): Rgb {
  const place = Math.min(1, Math.max(0, part)) * (points.length - 1);
  const first = Math.min(points.length - 2, Math.floor(place));
  const rest = place - first;
  const [from, to] = [points[first], points[first + 1]];
  return [from[0] + (to[0] - from[0]) * rest, from[1] + (to[1] - from[1]) * rest, from[2] + (to[2] - from[2]) * rest];
}

/** The colour of a weight between 0 and 1. */
export function shade(part: number, ramp: RampName = "ember", dark = false): Rgb {
  const held = Number.isFinite(part) ? part : 0;
  return srgb(between(POINTS[ramp], dark ? 1 - held : held));
}

/** The colour of a difference between −1 and 1. */
export function shadeDifference(part: number, dark = false): Rgb {
  const held = Number.isFinite(part) ? Math.min(1, Math.max(-1, part)) : 0;
  return srgb(between([MIDDLE[dark ? "dark" : "light"], held < 0 ? LESS : MORE], Math.abs(held)));
}

/** A table of STEPS packed pixels, ready to be stored into the memory of an ImageData. */
export function packed(colour: (part: number) => Rgb): Uint32Array {
  const bytes = new Uint8ClampedArray(4 * STEPS);
  for (let step = 0; step < STEPS; step++) {
    bytes.set([...colour(step / (STEPS - 1)), 255], 4 * step);
  }
  return new Uint32Array(bytes.buffer);
}

export function rampTable(ramp: RampName, dark: boolean): Uint32Array {
  return packed((part) => shade(part, ramp, dark));
}

/** From −1 at the first step to 1 at the last. */
export function differenceTable(dark: boolean): Uint32Array {
  return packed((part) => shadeDifference(2 * part - 1, dark));
}

export function css([red, green, blue]: Rgb, alpha = 1): string {
  return alpha === 1 ? `rgb(${red} ${green} ${blue})` : `rgb(${red} ${green} ${blue} / ${alpha.toFixed(3)})`;
}
