// The steps of a generation, and the layers that tell what each of them looked at.

import type { Exhibit, Output } from "../data/manifest";

export function outputOf(exhibit: Exhibit, entry: number): Output | null {
  const outputs = exhibit.answer?.outputs ?? [];
  return outputs[Math.min(entry, outputs.length - 1)] ?? null;
}

/** The side along which a generated text stands: that of the queries of cross-attention, or the only one there is. */
export function targetSide(exhibit: Exhibit): number {
  const crossing = exhibit.layers.find((layer) => layer.cross);
  return crossing ? crossing.query_side : exhibit.layers[exhibit.layers.length - 1].query_side;
}

/** Whether the queries of a layer are the generated text. */
export function generates(exhibit: Exhibit, layer: number): boolean {
  return exhibit.layers[layer]?.query_side === targetSide(exhibit);
}

/** The layer to begin with: the last that looks across, or the last of all. */
export function tellingLayer(exhibit: Exhibit): number {
  const crossing = exhibit.layers.findLastIndex((layer, index) => layer.cross && generates(exhibit, index));
  return crossing >= 0 ? crossing : exhibit.layers.findLastIndex((_, index) => generates(exhibit, index));
}
