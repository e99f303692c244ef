import type { Clock } from './clock.ts';

/**
 * Holds at most `maxEntries`; beyond, the one unused for longest goes. So callers who make up tokens or table names
 * can displace entries, and never grow the memory (P7).
 */
export class BoundedCache<Value> {
  readonly #entries = new Map<string, Value>();
  readonly #maxEntries: number;
  readonly #onRemoved: (value: Value) => void;

  /** `onRemoved` is called for each value that the cache evicts, and for each that `delete` removes. */
  constructor(maxEntries: number, onRemoved: (value: Value) => void = () => undefined) {
    this.#maxEntries = maxEntries;
    this.#onRemoved = onRemoved;
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

  delete(key: string): void {
    const value = this.#entries.get(key);
    if (value === undefined) return;
    this.#entries.delete(key);
    this.#onRemoved(value);
  }

  /** A Map iterates in insertion order, and `get` inserts anew. */
  #evictLongestUnused(): void {
    const [longestUnused] = this.#entries.keys();
    if (longestUnused !== undefined) this.delete(longestUnused);
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
