import { LRUCache } from 'lru-cache';
import type { TransactionId } from './ids.ts';

/** Time is injected so that tests own it. */
export interface Clock {
  /** Counts milliseconds since 1970 (UTC). */
  nowMs(): number;
  /** Calls `run` once after `afterMs`; the returned function cancels it. Never keeps the process alive. */
  schedule(afterMs: number, run: () => void): () => void;
}

export const dayMs = 86_400_000;

export const durationUnitsMs: Readonly<Record<string, number>> = { d: dayMs, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** Reads `500ms`, `30d` or `1h30m`; undefined where the text is no duration. */
export function readDurationMs(text: string): number | undefined {
  if (!/^(\d{1,12}(ms|[dhms]))+$/.test(text)) return undefined;
  const parts = [...text.matchAll(/(\d+)(ms|[dhms])/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (durationUnitsMs[unit] ?? 0), 0);
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  schedule(afterMs, run) {
    const timer = setTimeout(run, afterMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves when this time has passed. */
export const untilPassed = (clock: Clock, forMs: number): Promise<void> =>
  new Promise((resolve) => {
    clock.schedule(forMs, resolve);
  });

/**
 * Works again and again, each time so long after the last as that answered in milliseconds. `work` never rejects. Returns how to stop it,
 * which waits for the work under way; its signal aborts then, for the reason that is given.
 */
export function repeat(
  clock: Clock,
  firstAfterMs: number,
  work: (stopping: AbortSignal) => Promise<number>,
): (reason?: Error) => Promise<void> {
  const stopping = new AbortController();
  let underWay = Promise.resolve();
  let cancel = clock.schedule(firstAfterMs, run);
  function run(): void {
    underWay = work(stopping.signal).then((afterMs) => {
      if (!stopping.signal.aborted) cancel = clock.schedule(afterMs, run);
    });
  }
  return async (reason) => {
    stopping.abort(reason);
    cancel();
    await underWay;
  };
}

/** Random identifiers are injected for the same reason. */
export type NewId = () => string;

export const newTransactionId = (newId: NewId): TransactionId => newId() as TransactionId;

interface Entry<Value> {
  readonly value: Value;
  readonly expiresAtMs: number;
}

/** A bounded cache (P7) whose entries end each at its own time; its room grows with them, where `max` takes all of it at once. */
export class ExpiringCache<Value> {
  readonly #entries: LRUCache<string, Entry<Value>>;
  readonly #clock: Clock;

  constructor(maxEntries: number, clock: Clock) {
    this.#entries = new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
    this.#clock = clock;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    return entry === undefined || entry.expiresAtMs <= this.#clock.nowMs() ? undefined : entry.value;
  }

  set(key: string, value: Value, expiresAtMs: number): void {
    this.#entries.set(key, { value, expiresAtMs });
  }
}
