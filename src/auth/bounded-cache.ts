import type { Clock } from '../kernel/clock.ts';

/**
 * Holds at most `maxEntries`; beyond, the one unused for longest goes. So callers who make up tokens or table names
 * can displace entries, and never grow the memory (P7).
 */
export class BoundedCache<Value> {
  readonly #entries = new Map<string, Value>();
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: string): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: string, value: Value): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size > this.#maxEntries) this.#evictLongestUnused();
  }

  /** A Map iterates in insertion order, and `get` inserts anew. */
  #evictLongestUnused(): void {
    for (const key of this.#entries.keys()) {
      this.#entries.delete(key);
      return;
    }
  }
}

/** A bounded cache whose entries also end, each at its own time. */
export class ExpiringCache<Value> {
  readonly #entries: BoundedCache<{ readonly value: Value; readonly expiresAtMs: number }>;
  readonly #clock: Clock;

  constructor(maxEntries: number, clock: Clock) {
    this.#entries = new BoundedCache(maxEntries);
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
