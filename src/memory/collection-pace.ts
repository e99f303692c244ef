/** So many collections in a row are looked at: fewer happen close together whenever a process starts. */
const observed = 4;
/** A collection takes 25 to 50 ms of the event loop beside a busy table (measured): at this pace, 2 % of it. */
const oftenWithinMs = 6_000;
/** Longer, since collections get rarer by themselves once nobody hurries them. */
const rareOverMs = 18_000;

/**
 * Whether collections of the whole heap are rare enough that more of them cost nothing. V8 itself lets a heap whose program
 * allocates little grow fourfold before it looks at it, and keeps the pages ever after.
 */
export class CollectionPace {
  #timesMs: readonly number[] = [];
  #isSlow = true;

  get isSlow(): boolean {
    return this.#isSlow;
  }

  /** A collection of the whole heap at this time, of any clock that only goes forward. */
  collected(atMs: number): void {
    this.#timesMs = [...this.#timesMs, atMs].slice(-observed);
    const [first = atMs] = this.#timesMs;
    if (this.#timesMs.length < observed) return;
    this.#isSlow = atMs - first >= (this.#isSlow ? oftenWithinMs : rareOverMs);
  }
}
