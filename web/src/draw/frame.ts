// The frame around a map: labels to the left and above it, entropy to the right, received mass below.

import type { Box } from "./pen";

export interface Frame {
  readonly map: Box;
  readonly right: Box;
  readonly bottom: Box;
  readonly width: number;
  readonly height: number;
}

export interface Room {
  readonly left: number;
  readonly top: number;
  readonly margin: number; // 0: no margins
}

const GAP = 8;
const EDGE = 14; // what is written beside a margin may be wider than it

export function frameOf(width: number, height: number, { left, top, margin }: Room): Frame {
  const beside = margin ? margin + GAP + EDGE : 26;
  const map = { x: left, y: top, width: Math.max(40, width - left - beside), height: Math.max(40, height - top - beside) };
  return {
    map,
    right: { x: map.x + map.width + GAP, y: map.y, width: margin, height: map.height },
    bottom: { x: map.x, y: map.y + map.height + GAP, width: map.width, height: margin },
    width,
    height,
  };
}
