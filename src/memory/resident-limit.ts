import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';

/** What the memory of the process is known by, and what can be done about it. */
export interface ProcessMemory {
  residentBytes(): number;
  /** Gives back what nobody uses any more, now. Costs up to some hundreds of milliseconds in which nothing else runs. */
  collect(): void;
  /** Has it given back by the next collection that is due anyway, at a fraction of that cost. Returns at once. */
  collectSoon(): void;
  /** While `isThrifty`, less garbage is left lying. That takes time, all the time. */
  setThrifty(isThrifty: boolean): void;
}

export interface ResidentLimitParts {
  readonly limitBytes: number;
  readonly memory: ProcessMemory;
  readonly clock: Clock;
  /** Told whenever writes begin to be refused, and when they are let in again. */
  readonly onChange: (isFull: boolean, residentBytes: number) => void;
}

/** Writes are refused from this part of the limit on: the rest is for those already let in. */
const fullFrom = 14 / 16;
/** They are let in again below this part, so that not every sample changes its mind. */
const roomBelow = 13 / 16;
/** Before that, little garbage is left lying from this part of the limit on, until less than the other is resident. */
const thriftyFrom = 12 / 16;
const ampleBelow = 10 / 16;
/** A sample costs 6 microseconds. */
const sampleEveryMs = 10;
const collectSoonEveryMs = 10_000;
const collectEveryMs = 2_000;
/** If a collection gave back less than this part of the limit, the next one is not tried so soon. */
const worthCollecting = 1 / 32;
const collectInVainEveryMs = 30_000;

/**
 * Keeps resident memory under its limit by turning new writes away while little is left (P7). It is the last line: the
 * budgets of bodies say who may have what, and this sees what no budget counts, such as what the allocators keep. Garbage is
 * seen to first, in time and cheaply; the collection that makes everybody wait is for when that was not enough.
 *
 * Memory may never come down again, since allocators need not give back what they were given back. So a write that would
 * be alone is always let in: the service then goes on, one write at a time, in memory that is its own already.
 */
export class ResidentLimit {
  readonly #parts: ResidentLimitParts;
  #isFull = false;
  #sampledAtMs = Number.NEGATIVE_INFINITY;
  #isThrifty = false;
  #askedToCollectAtMs = Number.NEGATIVE_INFINITY;
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
    if (Math.abs(nowMs - this.#sampledAtMs) < sampleEveryMs) return;
    this.#sampledAtMs = nowMs;
    const bytes = this.#sample(nowMs);
    const isFull = bytes >= (this.#isFull ? roomBelow : fullFrom) * this.#parts.limitBytes;
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#parts.onChange(isFull, bytes);
  }

  /** Collected first: much of what is resident may be garbage that nobody had a reason to look for. */
  #sample(nowMs: number): number {
    const { memory, limitBytes } = this.#parts;
    const bytes = memory.residentBytes();
    this.#saveInTime(bytes, nowMs);
    if (bytes < fullFrom * limitBytes || Math.abs(nowMs - this.#collectedAtMs) < this.#collectAgainAfterMs)
      return bytes;
    this.#collectedAtMs = nowMs;
    memory.collect();
    const left = memory.residentBytes();
    this.#collectAgainAfterMs = bytes - left < worthCollecting * limitBytes ? collectInVainEveryMs : collectEveryMs;
    return left;
  }

  #saveInTime(bytes: number, nowMs: number): void {
    const { memory, limitBytes } = this.#parts;
    const isThrifty = bytes >= (this.#isThrifty ? ampleBelow : thriftyFrom) * limitBytes;
    if (isThrifty !== this.#isThrifty) memory.setThrifty(isThrifty);
    this.#isThrifty = isThrifty;
    if (bytes < thriftyFrom * limitBytes || Math.abs(nowMs - this.#askedToCollectAtMs) < collectSoonEveryMs) return;
    this.#askedToCollectAtMs = nowMs;
    memory.collectSoon();
  }
}
