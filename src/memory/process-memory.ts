/** The memory of this very process, for the limit on it. */
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { CollectionPace } from './collection-pace.ts';
import type { ProcessMemory } from './resident-limit.ts';

/** V8's collector on demand, where `--expose-gc` was not given. */
type Collector = (how: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void;

/**
 * By how much V8's heap grows from one collection of all of it to the next; left to itself, by up to 300. Collecting that much
 * more often takes a fifth of the throughput (14 % at 100), and the heap of 2,560 writing clients 110 MB instead of 240.
 */
const thriftyGrowthPercent = 60;
const asV8Likes = 0;
/** Of resident memory, between two looks: less may have gone by chance. */
const worthBytes = 16 * 2 ** 20;

/**
 * Two ways to have garbage given back, beside 2,560 clients: V8's last resort, which is two collections at a stretch (250 to
 * 300 ms; an ordinary one keeps for itself what it frees), and its way to save memory, whose next collection gives back as
 * much, and is done beside the running program but for its end (40 to 90 ms).
 */
export function processMemory(): ProcessMemory & Disposable {
  const collector = findCollector();
  const saver = new MemorySaver();
  const growth = new HeapGrowth();
  return {
    residentBytes,
    collect: () => collector?.({ type: 'major', flavor: 'last-resort' }),
    collectSoon: () => saver.start(),
    setThrifty: (isThrifty) => growth.setThrifty(isThrifty),
    [Symbol.dispose]: () => growth.stop(),
  };
}

const residentBytes = (): number => process.memoryUsage.rss();

/** The heap grows little while it is told to, and while that costs nothing: 300 MB resident after 10,000 single rows, not 390. */
class HeapGrowth {
  readonly #pace = new CollectionPace();
  readonly #collections = new PerformanceObserver((seen) => this.#collected(seen.getEntries().filter(isOfWholeHeap)));
  #isThrifty = false;

  constructor() {
    this.#collections.observe({ entryTypes: ['gc'] });
    this.#tell();
  }

  setThrifty(isThrifty: boolean): void {
    this.#isThrifty = isThrifty;
    this.#tell();
  }

  stop(): void {
    this.#collections.disconnect();
  }

  #collected(entries: readonly PerformanceEntry[]): void {
    for (const { startTime } of entries) this.#pace.collected(startTime);
    if (entries.length > 0) this.#tell();
  }

  #tell(): void {
    const isThrifty = this.#isThrifty || this.#pace.isSlow;
    setFlagsFromString(`--heap-growing-percent=${isThrifty ? thriftyGrowthPercent : asV8Likes}`);
  }
}

/**
 * Has V8 save memory for one collection of the whole heap: a service that always does halves its throughput. Where that one
 * was under way already, and so gives nothing back, for the next one, too.
 */
class MemorySaver {
  readonly #collections = new PerformanceObserver((seen) => this.#collected(seen.getEntries().filter(isOfWholeHeap)));
  #residentBefore = 0;
  #remaining = 0;

  start(): void {
    this.#residentBefore = residentBytes();
    this.#remaining = 2;
    setFlagsFromString('--memory-saver-mode');
    this.#collections.observe({ entryTypes: ['gc'] });
  }

  #collected({ length }: readonly PerformanceEntry[]): void {
    if (length === 0) return;
    this.#remaining -= length;
    if (this.#remaining > 0 && residentBytes() > this.#residentBefore - worthBytes) return;
    setFlagsFromString('--no-memory-saver-mode');
    this.#collections.disconnect();
  }
}

/** The types leave out what kind of collection it was. */
const isOfWholeHeap = (entry: PerformanceEntry & { readonly detail?: { readonly kind?: number } }): boolean =>
  entry.detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;

/** The flag is needed only while the function is made. */
function findCollector(): Collector | undefined {
  setFlagsFromString('--expose-gc');
  const found: unknown = runInNewContext('globalThis.gc');
  setFlagsFromString('--no-expose-gc');
  return typeof found === 'function' ? (found as Collector) : undefined;
}
