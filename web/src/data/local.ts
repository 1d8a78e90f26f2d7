// The source of an exported page: everything is in the page, and a worker computes.

import type { TilePlace } from "../draw/pyramid";
import { asPicture } from "./answers";
import { inflated } from "./inflate";
import type { Manifest } from "./manifest";
import { unpacked } from "./pack";
import type { AtlasData, HeadRows, MapName, Margins, Source, TileData } from "./source";

export type Question =
  | { kind: "load"; name: string; base64: string }
  | { kind: "tile"; layer: string; heads: readonly number[]; place: TilePlace; exact: boolean }
  | { kind: "margins"; layer: string; heads: readonly number[] }
  | { kind: "row"; layer: string; query: number }
  | { kind: "column"; layer: string; heads: readonly number[]; key: number }
  | { kind: "atlas"; layer: string; size: number };

export interface Asked {
  id: number;
  question: Question;
}

export interface Answered {
  id: number;
  answer?: unknown;
  error?: string;
}

/** The text of a pack within the page. */
export type Held = (name: string) => string;

export function localSource(manifest: Manifest, worker: Worker, held: Held): Source {
  const waiting = new Map<number, { done: (answer: never) => void; failed: (reason: Error) => void }>();
  const loaded = new Map<string, Promise<null>>();
  let count = 0;

  worker.onmessage = ({ data }: MessageEvent<Answered>) => {
    const { done, failed } = waiting.get(data.id)!;
    waiting.delete(data.id);
    if (data.error === undefined) done(data.answer as never);
    else failed(new Error(data.error));
  };

  function ask<Found>(question: Question): Promise<Found> {
    const id = count++;
    return new Promise<Found>((done, failed) => {
      waiting.set(id, { done, failed });
      worker.postMessage({ id, question: JSON.parse(JSON.stringify(question)) } satisfies Asked);
    });
  }

  /** Ask about a layer, which is handed to the worker the first time. */
  async function about<Found>(map: MapName, question: (layer: string) => Question, signal?: AbortSignal): Promise<Found> {
    const name = `layer/${map.exhibit}/${map.layer}/${map.entry}`;
    if (!loaded.has(name)) loaded.set(name, ask<null>({ kind: "load", name, base64: held(`pack:${name}`) }));
    await loaded.get(name);
    signal?.throwIfAborted();
    return ask<Found>(question(name));
  }

  return {
    manifest,
    live: false,
    check: () => Promise.resolve(),
    tile: (map, place, exact, signal) =>
      about<TileData>(map, (layer) => ({ kind: "tile", layer, heads: map.heads, place, exact }), signal),
    margins: (map, _, signal) => about<Margins>(map, (layer) => ({ kind: "margins", layer, heads: map.heads }), signal),
    row: (map, query, signal) => about<HeadRows>(map, (layer) => ({ kind: "row", layer, query }), signal),
    column: (map, key, _, signal) =>
      about<HeadRows>(map, (layer) => ({ kind: "column", layer, heads: map.heads, key }), signal),
    atlas: (map, size, signal) => about<AtlasData>(map, (layer) => ({ kind: "atlas", layer, size }), signal),
    media: async (exhibit, side, entry) =>
      asPicture(unpacked(await inflated(held(`pack:media/${exhibit}/${side}/${entry}`)))),
    importance: () => Promise.reject(new Error("the model is not in this file: importance needs it")),
    touch: () => Promise.reject(new Error("the model is not in this file: it cannot be touched")),
  };
}
