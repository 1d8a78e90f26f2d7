// Keys that mean the same everywhere. Those of a map or a text are handled where they are drawn.

import { CURVES } from "../draw/tone";
import type { Session } from "./session.svelte";

export const KEYS: readonly (readonly [string, string])[] = [
  ["1 … 7", "the views"],
  ["[ ]", "the layer before, after"],
  [", .", "the head before, after"],
  ["a", "all heads, averaged"],
  ["e", "the next entry (hypothesis)"],
  ["c", "the scale of colours: linear, root, log"],
  ["m", "a cell shows the mass, or its largest weight"],
  ["d", "light or dark"],
  ["← ↑ → ↓", "move the chosen cell, word or patch (with Shift: by ten)"],
  ["+ − 0", "closer, further, all of the map"],
  ["Home End", "the first, the last"],
  ["t", "the map as a table"],
  ["Enter", "open what is chosen"],
  ["Esc", "choose nothing"],
  ["?", "this list"],
];

/** Whether a key was for the page. */
export function pressed(event: KeyboardEvent, session: Session, help: () => void): boolean {
  const target = event.target as HTMLElement | null;
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (target?.matches("input, textarea, select")) return false;
  const { state, layer, exhibit } = session;
  if (/^[1-7]$/.test(event.key)) {
    const view = session.views[Number(event.key) - 1];
    if (view) session.set({ view });
    return view !== undefined;
  }
  switch (event.key) {
    case "?":
      help();
      return true;
    case "[":
    case "]": {
      const next = state.layer + (event.key === "]" ? 1 : -1);
      session.set({ layer: (next + exhibit.layers.length) % exhibit.layers.length });
      return true;
    }
    case ",":
    case ".": {
      const step = event.key === "." ? 1 : -1;
      const from = state.heads.length ? state.heads[0] : step > 0 ? -1 : layer.heads;
      session.set({ heads: [(from + step + layer.heads) % layer.heads] });
      return true;
    }
    case "a":
      session.set({ heads: [] });
      return true;
    case "e":
      session.set({ entry: (state.entry + 1) % Math.max(1, exhibit.entries.length) });
      return true;
    case "c":
      session.set({ curve: CURVES[(CURVES.indexOf(state.curve) + 1) % CURVES.length] });
      return true;
    case "m":
      session.set({ statistic: state.statistic === "mass" ? "peak" : "mass" });
      return true;
    case "d":
      session.set({ theme: session.dark ? "light" : "dark" });
      return true;
  }
  return false;
}
