import type { Clock } from '#src/kernel/clock.ts';

/** Time that moves when the test says so. */
export class ManualClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ atMs: number; run: () => void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  schedule(afterMs: number, run: () => void): () => void {
    const timer = { atMs: this.#nowMs + afterMs, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get waiting(): readonly number[] {
    return [...this.#timers].map(({ atMs }) => atMs - this.#nowMs).sort((a, b) => a - b);
  }

  advance(byMs: number): void {
    this.#nowMs += byMs;
    for (const timer of [...this.#timers]) {
      if (timer.atMs > this.#nowMs) continue;
      this.#timers.delete(timer);
      timer.run();
    }
  }
}
