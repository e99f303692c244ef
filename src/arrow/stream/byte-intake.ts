import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { Arena } from './chunk-builder.ts';

/**
 * Pulls from the body only when bytes are asked for, which is the back-pressure. It never closes the body: closing a
 * request's stream destroys its socket, and the refusal could not be answered any more. The server decides what becomes of
 * unread bytes.
 */
export class ByteIntake {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #pending: Uint8Array = new Uint8Array(0);
  #received = 0;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#chunks = body[Symbol.asyncIterator]();
  }

  /** Fills `arena` up to `end`; false where the body ended before. */
  async fill(arena: Arena, end: number): Promise<boolean> {
    while (arena.used < end) {
      if (this.#pending.length === 0 && !(await this.#pull())) return false;
      const wanted = Math.min(this.#pending.length, end - arena.used);
      arena.append(this.#pending.subarray(0, wanted));
      this.#pending = this.#pending.subarray(wanted);
    }
    return true;
  }

  async hasMore(): Promise<boolean> {
    return this.#pending.length > 0 || (await this.#pull());
  }

  /** Replaces the pending bytes, all of which were consumed, by the next chunk that holds any. */
  async #pull(): Promise<boolean> {
    for (;;) {
      const next = await this.#next();
      if (next.done === true) return false;
      if (next.value.length === 0) continue;
      this.#received += next.value.length;
      this.#pending = next.value;
      return true;
    }
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    try {
      return await this.#chunks.next();
    } catch (error) {
      if (error instanceof LancegateError) throw error;
      throw invalidInput(`the upload was cut off after ${this.#received} bytes`, error);
    }
  }
}
