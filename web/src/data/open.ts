// Which source a page has: what is embedded in it, or the library that served it.

import { localSource } from "./local";
import type { Manifest } from "./manifest";
import { remoteSource } from "./remote";
import type { Source } from "./source";
import PageWorker from "./worker?worker&inline";

export async function openSource(token: string | null): Promise<Source> {
  const data = JSON.parse(document.getElementById("regard-data")?.textContent ?? "null") as { manifest: Manifest } | null;
  if (data) return localSource(data.manifest, new PageWorker(), textOf);
  if (!token) throw new Error("The address of this page has lost its token: open the one that regard printed.");
  return remoteSource(token);
}

function textOf(id: string): string {
  const found = document.getElementById(id)?.textContent;
  if (!found) throw new Error(`this file holds no ${id.replace("pack:", "")}`);
  return found;
}
