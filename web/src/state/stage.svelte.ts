// What the maps on one page share: where they are looked at, what is pointed at, what is chosen.

import type { Cell, Extent, Viewport } from "../draw/viewport";
import { at, resized, spotOf, whole, type Spot } from "../draw/viewport";

export class Stage {
  view = $state.raw<Viewport | null>(null);
  hover = $state.raw<Cell | null>(null);

  /** Fit the view to a screen: the same place as before, the given one, or all of the map. */
  fit(extent: Extent, width: number, height: number, spot: Spot | null): void {
    const { view } = this;
    const same = view && view.across.size === extent.keys && view.down.size === extent.queries;
    if (same && view.across.pixels === width && view.down.pixels === height) return;
    if (same) this.view = resized(view, width, height);
    else {
      const all = whole(extent, width, height);
      this.view = spot ? at(all, spot) : all;
    }
  }

  get spot(): Spot | null {
    return this.view && spotOf(this.view);
  }
}
