import type { NativeTable } from '../native/native.ts';

/**
 * A native table and the version it stands at. Commits that are made beside it (`RowReplacement`) leave it behind, and it
 * catches up when somebody needs it: the engine's look for a newer version takes up to 10 ms beside large merges, and one
 * commit by places after the other needs none.
 */
export class StandingTable {
  readonly #table: NativeTable;
  /** If that is known: each question to the engine costs 0.1 ms, and a merge has several. */
  #version: number | undefined;
  #isBehind = false;

  constructor(table: NativeTable) {
    this.#table = table;
  }

  async version(): Promise<number> {
    this.#version ??= await (await this.current()).version();
    return this.#version;
  }

  /** Where `version` says, or at a newer version, which it says then. */
  async current(): Promise<NativeTable> {
    if (!this.#isBehind) return this.#table;
    await this.latest();
    this.#version = await this.#table.version();
    return this.#table;
  }

  async latest(): Promise<void> {
    await this.#table.checkoutLatest();
    this.#isBehind = false;
    this.#version = undefined;
  }

  /** What was committed through it made this version. */
  committed(version: number): void {
    this.#version = version;
  }

  committedBeside(version: number): void {
    this.#version = version;
    this.#isBehind = true;
  }

  /** A commit whose version nobody has to know at once. */
  async commit<Result>(run: (table: NativeTable) => Promise<Result>): Promise<Result> {
    const table = await this.current();
    this.#version = undefined;
    try {
      return await run(table);
    } finally {
      this.#version = undefined;
    }
  }

  close(): void {
    this.#table.close();
  }
}
