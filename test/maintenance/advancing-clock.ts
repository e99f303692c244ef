import { type Clock, systemClock } from '#src/kernel/clock.ts';

interface Scheduled {
  readonly atMs: number;
  readonly run: () => void;
}

/** Runs as the real one does, which the engine's versions are dated by, and jumps ahead when a test says so. */
export class AdvancingClock implements Clock {
  readonly #scheduled = new Set<Scheduled>();
  #aheadMs = 0;

  nowMs(): number {
    return systemClock.nowMs() + this.#aheadMs;
  }

  schedule(afterMs: number, run: () => void): () => void {
    const entry = { atMs: this.nowMs() + afterMs, run: () => this.#end(entry, cancel, run) };
    const cancel = systemClock.schedule(afterMs, entry.run);
    this.#scheduled.add(entry);
    return () => {
      cancel();
      this.#scheduled.delete(entry);
    };
  }

  /** What was to run by then runs now. */
  advance(ms: number): void {
    this.#aheadMs += ms;
    const nowMs = this.nowMs();
    for (const entry of [...this.#scheduled]) if (entry.atMs <= nowMs) entry.run();
  }

  #end(entry: Scheduled, cancel: () => void, run: () => void): void {
    cancel();
    if (this.#scheduled.delete(entry)) run();
  }
}
