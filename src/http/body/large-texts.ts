import type { Clock } from '../../kernel/clock.ts';
import { FairQueue } from '../../kernel/fair-queue.ts';
import { type Principal, principalKey } from '../../kernel/request-scope.ts';

/**
 * A long text of JSON or SQL keeps the event loop busy for up to a quarter of a second. So one is read after the other, principals in
 * rotation, and after each the loop belongs to all others as long as it took: they wait for one text at most, and have half of the
 * time (P10).
 */
export class LargeTexts {
  readonly #clock: Clock;
  // The admission lets in fewer.
  readonly #queue = new FairQueue({ slots: 1, maxWaiting: 4_096, principalShare: 1, waiters: 'large bodies' });

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the text may be read, which is to be done at once. `SlowDown`, and the signal's reason. */
  async turnOf(text: string, principal: Principal, signal: AbortSignal): Promise<string> {
    // A shorter text is read within a few milliseconds, whatever is in it.
    if (text.length <= 32 * 1024) return text;
    const release = await this.#queue.take({ principal: principalKey(principal), work: 'read' }, signal);
    const begunMs = performance.now();
    setImmediate(() => this.#clock.schedule(performance.now() - begunMs, release));
    return text;
  }
}
