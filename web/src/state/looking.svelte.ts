// What one word looks at and who looks at it, asked for while the pointer moves.

import type { HeadRows, MapName, Source } from "../data/source";
import { blended } from "./rows";

export class Looking {
  row = $state.raw<Float32Array | null>(null); // what the query looks at
  rows = $state.raw<HeadRows | null>(null); // the same, head by head
  column = $state.raw<Float32Array | null>(null); // who looks at the key
  private control = new AbortController();

  constructor(
    private readonly source: Source,
    private readonly report: (failure: unknown) => void,
  ) {}

  /** Ask about a query and a key of a map; null: about none. */
  async ask(map: MapName, query: number | null, key: number | null): Promise<void> {
    this.control.abort();
    const control = (this.control = new AbortController());
    try {
      const [rows, columns] = await Promise.all([
        query === null ? null : this.source.row(map, query, control.signal),
        key === null ? null : this.source.column(map, key, false, control.signal),
      ]);
      if (control.signal.aborted) return;
      this.rows = rows;
      this.row = rows && blended(rows, map.heads);
      this.column = columns && blended(columns, columns && map.heads.map((_, index) => index));
    } catch (failure) {
      if (!control.signal.aborted) this.report(failure);
    }
  }

  close(): void {
    this.control.abort();
  }
}
