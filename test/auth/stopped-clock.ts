import type { Clock } from '#src/kernel/clock.ts';

/** Stands at the moment it was made, where a real authorization server's tokens are valid, and moves when the test moves it. */
export class StoppedClock implements Clock {
  #nowMs = Date.now();

  nowMs(): number {
    return this.#nowMs;
  }

  advance(ms: number): void {
    this.#nowMs += ms;
  }

  schedule(): () => void {
    throw new Error('nothing in auth waits for a time');
  }
}
