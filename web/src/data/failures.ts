// Why a question was not answered.

/** The server cannot be reached. */
export class Unreachable extends Error {}

/** The server refused the request. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly exhibit: number | null, // that was asked about
  ) {
    super(message);
  }

  /** The server dropped this exhibit: it keeps only the last touched ones. */
  get letGo(): boolean {
    return this.status === 409 && this.exhibit !== null;
  }
}
