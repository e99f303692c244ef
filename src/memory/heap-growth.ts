import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';

/** In percent, from one collection of the whole heap to the next. At 0 V8 decides: up to 300. */
const lowGrowth = 60;
const growthOfV8 = 0;
/** So many collections in a row are looked at: fewer happen close together whenever a process starts. */
const observed = 4;
/** Collections of the whole heap are frequent when so many come within this time, and rare again when they take the longer one. */
const frequentWithinMs = 6_000;
const rareOverMs = 18_000;

/** Whether collections of the whole heap are so rare that more of them cost nothing. */
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
    this.#isSlow = atMs - first >= (this.#isSlow ? frequentWithinMs : rareOverMs);
  }
}

/**
 * Lets the heap grow little as long as its collections are rare, until it is disposed of. Left to itself, V8 lets the heap of a
 * service that does little grow fourfold before it collects all of it, and the pages stay resident ever after.
 */
export function limitHeapGrowth(): Disposable {
  const pace = new CollectionPace();
  const apply = (): void => setFlagsFromString(`--heap-growing-percent=${pace.isSlow ? lowGrowth : growthOfV8}`);
  const collections = new PerformanceObserver((seen) => {
    for (const { startTime } of seen.getEntries().filter(isOfWholeHeap)) pace.collected(startTime);
    apply();
  });
  collections.observe({ entryTypes: ['gc'] });
  apply();
  return { [Symbol.dispose]: () => collections.disconnect() };
}

/** The types leave out what kind of collection it was. */
const isOfWholeHeap = (entry: PerformanceEntry & { readonly detail?: { readonly kind?: number } }): boolean =>
  entry.detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
