import type { Clock } from './clock.ts';
import { LancegateError } from './errors.ts';

/** What the memory of the process is known by, and what can be done about it. */
export interface ProcessMemory {
  residentBytes(): number;
  /** Gives back what nobody uses any more. Costs some tens of milliseconds in which nothing else runs. */
  collect(): void;
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
/** A sample costs 6 microseconds. */
const sampleEveryMs = 10;
const collectEveryMs = 2_000;

/**
 * Keeps resident memory under its limit by turning new writes away while little is left (P7). It is the last line: the
 * budgets of bodies say who may have what, and this sees what no budget counts, such as what the allocators keep.
 *
 * Memory may never come down again, since allocators need not give back what they were given back. So a write that would
 * be alone is always let in: the service then goes on, one write at a time, in memory that is its own already.
 */
export class ResidentLimit {
  readonly #parts: ResidentLimitParts;
  #isFull = false;
  #sampledAtMs = Number.NEGATIVE_INFINITY;
  #collectedAtMs = Number.NEGATIVE_INFINITY;

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
    if (bytes < fullFrom * limitBytes || Math.abs(nowMs - this.#collectedAtMs) < collectEveryMs) return bytes;
    this.#collectedAtMs = nowMs;
    memory.collect();
    return memory.residentBytes();
  }
}
