// The source of a served page: the library computes, the page asks.

import type { TilePlace } from "../draw/pyramid";
import { asAtlas, asHeadRows, asMargins, asPicture, asTile } from "./answers";
import { Refused, Unreachable } from "./failures";
import type { Exhibit, Manifest, TouchRequest } from "./manifest";
import { type Pack, numbers, unpacked } from "./pack";
import type { MapName, Source } from "./source";

type Asked = Record<string, string | number>;

export async function remoteSource(token: string): Promise<Source> {
  const ask = async (path: string, exhibit: number | null, signal?: AbortSignal, body?: unknown): Promise<Response> => {
    const headers: Record<string, string> = { "X-Regard-Token": token };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const answer = await fetch(`/api/${path}`, {
      headers,
      signal,
      cache: "no-store",
      method: body === undefined ? "GET" : "POST",
      body: body === undefined ? undefined : JSON.stringify(body),
    }).catch((failure) => {
      if (signal?.aborted) throw failure;
      throw new Unreachable("The library no longer answers: was its process ended?");
    });
    if (!answer.ok) throw new Refused(await reason(answer), answer.status, exhibit);
    return answer;
  };
  const pack = async (path: string, asked: Asked, signal?: AbortSignal): Promise<Pack> => {
    const query = new URLSearchParams(Object.entries(asked).map(([name, value]) => [name, String(value)]));
    return unpacked(await (await ask(`${path}?${query}`, Number(asked.exhibit), signal)).arrayBuffer());
  };
  const named = ({ exhibit, layer, entry }: MapName) => ({ exhibit, layer, entry });
  const manifest: Manifest = await (await ask("manifest", null)).json();

  return {
    manifest,
    live: true,
    check: async () => void (await ask("manifest", null)),
    tile: async (map, place: TilePlace, exact, signal) =>
      asTile(await pack("tile", { ...named(map), heads: map.heads.join(","), ...place, exact: Number(exact) }, signal)),
    margins: async (map, exact, signal) =>
      asMargins(await pack("margins", { ...named(map), heads: map.heads.join(","), exact: Number(exact) }, signal)),
    row: async (map, query, signal) => asHeadRows(await pack("row", { ...named(map), query }, signal)),
    column: async (map, key, exact, signal) =>
      asHeadRows(
        await pack("column", { ...named(map), key, heads: map.heads.join(","), exact: Number(exact) }, signal),
      ),
    atlas: async (map, size, signal) => asAtlas(await pack("atlas", { ...named(map), size }, signal)),
    importance: async (exhibit, layer, signal) =>
      numbers(await pack("importance", { exhibit, layer }, signal), "importance"),
    media: async (exhibit, side, entry, signal) => asPicture(await pack("media", { exhibit, side, entry }, signal)),
    touch: async (request: TouchRequest, signal) => (await (await ask("touch", null, signal, request)).json()) as Exhibit,
  };
}

async function reason(answer: Response): Promise<string> {
  try {
    const said = (await answer.json()).error;
    if (typeof said === "string") return said;
  } catch {
    // Not JSON: the status must do.
  }
  return `the library answered ${answer.status}`;
}
