// Changes to a model's attention or input, and what became of its answer.

import type { Change, Exhibit } from "../data/manifest";
import { Unreachable } from "../data/failures";
import type { Edit } from "./edits";
import type { Session } from "./session.svelte";

const PAUSE = 250; // milliseconds without another change, before the model is run

export class Touching {
  changes = $state.raw<readonly Change[]>([]);
  input = $state.raw<Readonly<Record<string, string>>>({});
  result = $state.raw<Exhibit | null>(null);
  running = $state(false); // or about to be: what is shown is of the change before
  problem = $state<string | null>(null); // why the change could not be run
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
    return this.changes.some((change) => change.kind === "drop" && change.layer === layer && (change.heads === null || change.heads.includes(head)));
  }

  /** Switch a head off, or on again. */
  toggle(layer: string, head: number): void {
    const others = this.changes.filter((change) => change.kind !== "drop" || change.layer !== layer);
    const off = this.changes.flatMap((change) => (change.kind === "drop" && change.layer === layer ? (change.heads ?? []) : []));
    const heads = off.includes(head) ? off.filter((each) => each !== head) : [...off, head];
    this.change(heads.length ? [...others, { kind: "drop", layer, heads: heads.sort((one, other) => one - other) }] : others);
  }

  /** As an address says. */
  restore({ changes, input }: Edit, result: Exhibit): void {
    clearTimeout(this.timer);
    this.control.abort();
    [this.changes, this.input, this.result, this.running, this.problem] = [changes, input, result, false, null];
  }

  private later(): void {
    this.running = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.run(), PAUSE);
  }

  private async run(): Promise<void> {
    this.control.abort();
    const control = (this.control = new AbortController());
    if (!this.changes.length && !Object.keys(this.input).length) {
      this.done(null, null);
      return;
    }
    try {
      const asked = { exhibit: this.base.id, input: this.input, changes: this.changes };
      const found = await this.session.source.touch(asked, control.signal);
      if (control.signal.aborted) return;
      this.session.add(found);
      this.done(found, null);
    } catch (failure) {
      if (control.signal.aborted) return;
      if (failure instanceof Unreachable) this.session.fail(failure);
      this.done(null, failure instanceof Error ? failure.message : String(failure));
    }
  }

  /** What became of the change; no answer of another one is left beside it. */
  private done(result: Exhibit | null, problem: string | null): void {
    [this.result, this.problem, this.running] = [result, problem, false];
    this.session.set({}); // the address says what is shown
  }
}
