import { readFileSync } from 'node:fs';
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';

/** It measures the resident memory of the service: its own, and what merges take in readers beyond the memory that each reader has anyway. */
export class ServiceMemory {
  /** It has, by process id, the bytes that do not count of readers that run a merge. */
  readonly #exemptBytes = new Map<number, number>();

  residentBytes(): number {
    let bytes = process.memoryUsage.rss();
    for (const [pid, exemptBytes] of this.#exemptBytes) bytes += Math.max(0, residentBytesOf(pid) - exemptBytes);
    return bytes;
  }

  /**
   * Gives garbage back to the system, now. Nothing else runs for up to some hundreds of milliseconds. The launcher has Node
   * expose the collector (`bin/lancegate.js`); without it there is nothing to collect with.
   */
  collect(): void {
    // Any other flavor keeps for the heap what it frees.
    globalThis.gc?.({ type: 'major', flavor: 'last-resort' });
  }

  /** Counts what the process holds beyond `exemptBytes`. */
  countReader(pid: number, exemptBytes: number): void {
    this.#exemptBytes.set(pid, exemptBytes);
  }

  /** May be called for a process that does not count. */
  forgetReader(pid: number): void {
    this.#exemptBytes.delete(pid);
  }
}

/** Reads the resident memory as proc_pid_status(5) has it. Only Linux has that file; elsewhere this answers 0. */
function residentBytesOf(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * 1024;
  } catch {
    return 0; // the process has ended, or this is not Linux
  }
}

interface ResidentLimitParts {
  readonly limitBytes: number;
  readonly memory: Pick<ServiceMemory, 'residentBytes' | 'collect'>;
  readonly clock: Clock;
  /** Called when writes begin to be refused, and when they are admitted again. */
  readonly onChange: (isFull: boolean, residentBytes: number) => void;
}

/** Writes are refused from this part of the limit on: the rest is for those that are admitted already. */
const fullFrom = 14 / 16;
const collectEveryMs = 2_000;

/**
 * Keeps resident memory under its limit by refusing new writes while little is left (P7). It is the last line: quotas say
 * who may have what, and this sees what no quota counts, such as what the allocators keep. Before it refuses a write it has the
 * garbage collected, which every request waits for.
 *
 * Resident memory may never fall again, since allocators need not give back what was freed. So a write that would be the
 * only one is always admitted: the service then goes on, one write at a time, in memory that it already has.
 */
export class ResidentLimit {
  readonly #parts: ResidentLimitParts;
  #isFull = false;
  #sampledAtMs = Number.NEGATIVE_INFINITY;
  #collectedAtMs = Number.NEGATIVE_INFINITY;
  #collectAgainAfterMs = collectEveryMs;

  constructor(parts: ResidentLimitParts) {
    this.#parts = parts;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** `SlowDown` while memory is nearly full. `isAlone`: no other write is under way. */
  requireRoom(isAlone: boolean): void {
    this.#look();
    if (!this.#isFull || isAlone) return;
    throw new LancegateError('SlowDown', 'the memory of the service is nearly full', { retryAfterSeconds: 1 });
  }

  #look(): void {
    const nowMs = this.#parts.clock.nowMs();
    // A request in between takes the last sample.
    if (Math.abs(nowMs - this.#sampledAtMs) < 10) return;
    this.#sampledAtMs = nowMs;
    const bytes = this.#sample(nowMs);
    // Writes are admitted again below a lower part, so that not every sample changes the decision.
    const isFull = bytes >= (this.#isFull ? 13 / 16 : fullFrom) * this.#parts.limitBytes;
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#parts.onChange(isFull, bytes);
  }

  /** Collects garbage before memory counts as full: V8 may have had no reason to. */
  #sample(nowMs: number): number {
    const { memory, limitBytes } = this.#parts;
    const bytes = memory.residentBytes();
    if (bytes < fullFrom * limitBytes || Math.abs(nowMs - this.#collectedAtMs) < this.#collectAgainAfterMs)
      return bytes;
    this.#collectedAtMs = nowMs;
    memory.collect();
    const left = memory.residentBytes();
    // If a collection gave back less than this part of the limit, the next one is not tried so soon.
    this.#collectAgainAfterMs = bytes - left < limitBytes / 32 ? 30_000 : collectEveryMs;
    return left;
  }
}

/** So many collections in a row are looked at: fewer happen close together whenever a process starts. */
const observed = 4;

/** Says whether collections of the whole heap are so rare that more of them cost nothing. */
export class CollectionPace {
  #timesMs: readonly number[] = [];
  #isSlow = true;

  get isSlow(): boolean {
    return this.#isSlow;
  }

  /** Notes a collection of the whole heap at this time, of any clock that only goes forward. */
  collected(atMs: number): void {
    this.#timesMs = [...this.#timesMs, atMs].slice(-observed);
    const [first = atMs] = this.#timesMs;
    if (this.#timesMs.length < observed) return;
    // Collections of the whole heap are frequent when so many come within this time, and rare again when they take
    // thrice as long.
    this.#isSlow = atMs - first >= 6_000 * (this.#isSlow ? 1 : 3);
  }
}

/**
 * Lets the heap grow little as long as its collections are rare, until it is disposed of. Left to itself, V8 lets the heap of a
 * service that does little grow fourfold before it collects all of it, and the pages stay resident ever after.
 */
export function limitHeapGrowth(): Disposable {
  const pace = new CollectionPace();
  // In percent, from one collection of the whole heap to the next. At 0 V8 decides: up to 300.
  const apply = (): void => setFlagsFromString(`--heap-growing-percent=${pace.isSlow ? 60 : 0}`);
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
