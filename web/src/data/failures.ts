// Why a question was not answered.

/** Nobody is there any more. */
export class Unreachable extends Error {}

/** The library said no. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly exhibit: number | null, // that was asked about
  ) {
    super(message);
  }

  /** The exhibit was let go: only the last touched ones are kept. */
  get letGo(): boolean {
    return this.status === 409 && this.exhibit !== null;
  }
}
