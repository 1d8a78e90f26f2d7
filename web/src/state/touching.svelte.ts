// Changes to a model's attention or input, and what became of its answer.

import type { Change, Exhibit } from "../data/manifest";
import type { Session } from "./session.svelte";

const PAUSE = 250; // milliseconds without another change, before the model is run

export class Touching {
  changes = $state.raw<readonly Change[]>([]);
  input = $state.raw<Readonly<Record<string, string>>>({});
  result = $state.raw<Exhibit | null>(null);
  running = $state(false);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private control = new AbortController();

  constructor(private readonly session: Session) {}

  /** What is touched: never something that was touched already, since changes are counted from the beginning. */
  get base(): Exhibit {
    const { exhibit } = this.session;
    return exhibit.touched ? this.session.exhibitOf(exhibit.touched.of) : exhibit;
  }

  change(changes: readonly Change[]): void {
    this.changes = changes;
    this.later();
  }

  write(name: string, text: string): void {
    const { [name]: _, ...others } = this.input;
    this.input = text === (this.base.inputs?.[name] ?? "") ? others : { ...others, [name]: text };
    this.later();
  }

  clear(): void {
    this.input = {};
    this.change([]);
  }

  isOff(layer: string, head: number): boolean {
    return this.changes.some((change) => change.kind === "drop" && change.layer === layer && change.heads.includes(head));
  }

  /** Switch a head off, or on again. */
  toggle(layer: string, head: number): void {
    const others = this.changes.filter((change) => change.kind !== "drop" || change.layer !== layer);
    const off = this.changes.flatMap((change) => (change.kind === "drop" && change.layer === layer ? change.heads : []));
    const heads = off.includes(head) ? off.filter((each) => each !== head) : [...off, head];
    this.change(heads.length ? [...others, { kind: "drop", layer, heads: heads.sort((one, other) => one - other) }] : others);
  }

  private later(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.run(), PAUSE);
  }

  private async run(): Promise<void> {
    this.control.abort();
    const control = (this.control = new AbortController());
    if (!this.changes.length && !Object.keys(this.input).length) {
      this.result = null;
      this.running = false;
      return;
    }
    this.running = true;
    try {
      const asked = { exhibit: this.base.id, input: this.input, changes: this.changes };
      const found = await this.session.source.touch(asked, control.signal);
      if (control.signal.aborted) return;
      this.session.add(found);
      this.result = found;
      this.session.failure = null;
    } catch (failure) {
      if (control.signal.aborted) return;
      this.session.fail(failure);
    }
    this.running = false;
  }
}

export function told(change: Change): string {
  const heads = change.heads === null ? "all heads" : `head ${change.heads.join(", ")}`;
  switch (change.kind) {
    case "drop":
      return `${change.layer}: ${heads} switched off`;
    case "scale":
      return `${change.layer}: ${heads} × ${change.factor}`;
    case "uniform":
      return `${change.layer}: ${heads} looks everywhere alike`;
    case "forbid":
      return `${change.layer}: ${heads} may not look from ${change.queries.join(", ")} at ${change.keys.join(", ")}`;
  }
}
