// Where weights come from: from the library while it runs, or from what was put into an exported page.

import type { TilePlace } from "../draw/pyramid";
import type { Exhibit, Manifest, TouchRequest } from "./manifest";

/** One map: the heads are averaged. */
export interface MapName {
  readonly exhibit: number;
  readonly layer: number;
  readonly entry: number;
  readonly heads: readonly number[];
}

export interface TileData {
  readonly rows: number;
  readonly columns: number;
  readonly mass: Float32Array;
  readonly peak: Float32Array;
  readonly approximate: boolean;
}

export interface Margins {
  readonly entropy: Float32Array; // of each query, in nats
  readonly received: Float32Array; // by each key
  readonly approximate: boolean;
}

/** A row of numbers for each of some heads. */
export interface HeadRows {
  readonly heads: number;
  readonly length: number;
  readonly weights: Float32Array;
  readonly approximate: boolean;
}

export interface AtlasData {
  readonly heads: number;
  readonly rows: number;
  readonly columns: number;
  readonly maps: Float32Array;
  readonly measures: ReadonlyMap<string, Float32Array>;
  readonly approximate: boolean;
}

export interface Picture {
  readonly height: number;
  readonly width: number;
  readonly pixels: Uint8Array; // red, green, blue
}

export interface Source {
  readonly manifest: Manifest;
  readonly live: boolean; // the model is there, and can be touched
  check(): Promise<void>; // whether there is anybody to answer
  tile(map: MapName, place: TilePlace, exact: boolean, signal?: AbortSignal): Promise<TileData>;
  margins(map: MapName, exact: boolean, signal?: AbortSignal): Promise<Margins>;
  row(map: MapName, query: number, signal?: AbortSignal): Promise<HeadRows>; // of all heads of the layer
  column(map: MapName, key: number, exact: boolean, signal?: AbortSignal): Promise<HeadRows>; // of the map's heads
  atlas(map: MapName, size: number, signal?: AbortSignal): Promise<AtlasData>;
  importance(exhibit: number, layer: number, signal?: AbortSignal): Promise<Float32Array>;
  media(exhibit: number, side: number, entry: number, signal?: AbortSignal): Promise<Picture>;
  touch(request: TouchRequest, signal?: AbortSignal): Promise<Exhibit>;
}

export function mapKey(map: MapName): string {
  return `${map.exhibit}/${map.layer}/${map.entry}/${map.heads.join(",")}`;
}
