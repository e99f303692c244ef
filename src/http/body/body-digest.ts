import { createHash } from 'node:crypto';
import { bodyTooLarge } from '../../endpoint/body/decoded-body.ts';

/**
 * Takes the SHA-256 of a body from its chunks as they pass to its reader. `whole` reads those that the reader has left, and
 * drops them: this holds no more than one chunk.
 */
export class BodyDigest {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #maxBytes: number | undefined;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  /** `maxBytes` bounds what is read for the digest alone. */
  constructor(body: AsyncIterable<Uint8Array>, maxBytes: number | undefined) {
    this.#chunks = body[Symbol.asyncIterator]();
    this.#maxBytes = maxBytes;
  }

  /** The digest has what passes here. Leaving the loop closes nothing. */
  async *bytes(): AsyncGenerator<Uint8Array, void, void> {
    for (let chunk = await this.#next(); chunk !== undefined; chunk = await this.#next()) yield chunk;
  }

  /** Reads to the end of the body. Once only. `BodyTooLarge`, and what reading it throws. */
  async whole(): Promise<string> {
    while ((await this.#next()) !== undefined) {
      if (this.#maxBytes !== undefined && this.#bytes > this.#maxBytes) throw bodyTooLarge(this.#maxBytes);
    }
    return this.#hash.digest('hex');
  }

  async #next(): Promise<Uint8Array | undefined> {
    const next = await this.#chunks.next();
    if (next.done === true) return undefined;
    this.#hash.update(next.value);
    this.#bytes += next.value.length;
    return next.value;
  }
}
