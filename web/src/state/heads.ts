// Every head of an exhibit, in the order of the layers or by a measure.

import type { Exhibit } from "../data/manifest";
import type { AtlasData } from "../data/source";

export interface Head {
  readonly layer: number;
  readonly head: number;
  readonly value: number; // of the measure; NaN where it is not known
}

export interface Measure {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
}

export const MEASURES: readonly Measure[] = [
  { name: "entropy", title: "entropy", unit: "nats" },
  { name: "distance", title: "distance", unit: "positions" },
  { name: "sink", title: "sink mass", unit: "of all mass" },
  { name: "previous", title: "previous token", unit: "of its mass" },
  { name: "peak", title: "sharpness", unit: "mean of the largest weight" },
  { name: "importance", title: "importance", unit: "nats lost without it" },
];

/** All heads, with a measure; the largest first when they are sorted by one, and those without it last. */
export function headsOf(
  exhibit: Exhibit,
  found: ReadonlyMap<number, AtlasData>,
  importance: ReadonlyMap<number, Float32Array>,
  sort: string,
): Head[] {
  const all = exhibit.layers.flatMap((layer, index) => {
    const values = sort === "importance" ? importance.get(index) : found.get(index)?.measures.get(sort);
    return Array.from({ length: layer.heads }, (_, head) => ({ layer: index, head, value: values?.[head] ?? NaN }));
  });
  if (sort === "layer") return all;
  const size = (head: Head) => (Number.isNaN(head.value) ? -Infinity : head.value);
  return all.sort((one, other) => size(other) - size(one) || one.layer - other.layer || one.head - other.head);
}
