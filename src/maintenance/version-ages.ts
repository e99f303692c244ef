/** How many versions of a branch were made when, as far as this process has seen. */
interface Mark {
  readonly atMs: number;
  /** Versions made up to then. */
  readonly versions: number;
}

/**
 * A version can be removed once the retention has passed since the next one took its place. This estimates how many can, so
 * that manifests are read only when it is worth it.
 */
export class VersionAges {
  readonly #retentionMs: number;
  #marks: readonly Mark[] = [];
  #versions = 0;
  #removed = 0;

  constructor(retentionMs: number) {
    this.#retentionMs = retentionMs;
  }

  committed(nowMs: number): void {
    this.#versions += 1;
    const mark = { atMs: nowMs, versions: this.#versions };
    // The newest mark moves on until it is far enough from the one before it, so the last commit always has one.
    // Marks are this part of the retention apart, which is how much longer than asked a version can live.
    const isClose = nowMs - (this.#marks.at(-2)?.atMs ?? -Infinity) < this.#retentionMs / 8;
    const marks = [...(isClose ? this.#marks.slice(0, -1) : this.#marks), mark];
    const firstNeeded = marks.findLastIndex(({ atMs }) => atMs <= nowMs - this.#retentionMs);
    this.#marks = marks.slice(Math.max(0, firstNeeded));
  }

  quietForMs(nowMs: number): number {
    return nowMs - (this.#marks.at(-1)?.atMs ?? -Infinity);
  }

  /** How many versions a removal would find. */
  removable(nowMs: number): number {
    return Math.max(0, this.#superseded(nowMs) - this.#removed);
  }

  /** How many versions a removal would have to keep and read. */
  kept(nowMs: number): number {
    return this.#versions - Math.max(this.#superseded(nowMs), this.#removed);
  }

  /** `nowMs`: when the removal began. */
  removed(nowMs: number): void {
    this.#removed = Math.max(this.#removed, this.#superseded(nowMs));
  }

  /** Each version took the place of one before it. */
  #superseded(nowMs: number): number {
    return this.#marks.findLast(({ atMs }) => atMs <= nowMs - this.#retentionMs)?.versions ?? 0;
  }
}
