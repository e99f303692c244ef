/**
 * The bytes of an answer that is computed while it is sent: they wait for the client, and the client may not let them wait for
 * ever, since it holds what computes them. The rule is that of uploads: not long for any part, and not slowly in all.
 */
import type { Clock } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { slowestBytesPerMs } from './request-body.ts';

interface PacedParts {
  readonly clock: Clock;
  /** The longest wait for the client, once and, without enough bytes for it, in all. */
  readonly idleTimeoutMs: number;
  /** Ends the answer, also while it waits for its client. */
  readonly fail: (error: LancegateError) => void;
}

/** A client takes so much at least between two looks at whether it takes anything. */
const partBytes = 64 * 1024;

export class PacedAnswer {
  readonly #parts: PacedParts;
  #sentBytes = 0;
  #waitedMs = 0;
  #waitingSinceMs: number | undefined;

  constructor(parts: PacedParts) {
    this.#parts = parts;
  }

  /** Bytes that the client has taken, or the system for it. */
  get sentBytes(): number {
    return this.#sentBytes;
  }

  /** How long the answer has waited for its client so far. */
  get waitedMs(): number {
    const { clock } = this.#parts;
    return this.#waitedMs + (this.#waitingSinceMs === undefined ? 0 : clock.nowMs() - this.#waitingSinceMs);
  }

  async *send(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
    for await (const piece of bytes) {
      for (let at = 0; at < piece.length; at += partBytes) yield* this.#part(piece.subarray(at, at + partBytes));
    }
  }

  *#part(part: Uint8Array): Generator<Uint8Array, void, void> {
    const { clock, idleTimeoutMs, fail } = this.#parts;
    this.#waitingSinceMs = clock.nowMs();
    const cancel = clock.schedule(idleTimeoutMs, () => fail(tooSlow()));
    try {
      yield part;
      this.#sentBytes += part.length;
    } finally {
      cancel();
      this.#waitedMs = this.waitedMs;
      this.#waitingSinceMs = undefined;
    }
    if (this.#waitedMs > idleTimeoutMs && this.#sentBytes < this.#waitedMs * slowestBytesPerMs) throw tooSlow();
  }
}

const tooSlow = (): LancegateError => new LancegateError('TimedOut', 'the client takes the answer too slowly');
