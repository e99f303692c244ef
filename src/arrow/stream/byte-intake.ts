/** A client's body as it comes, and the growing buffer into which exactly the wanted bytes of it are moved. */
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BodyAccount } from '../../memory/body-memory.ts';

/**
 * Bytes in one buffer that grows as they come, never by what a header promises. Growing doubles, so each byte is
 * moved once more on average; a body of known length, and a chunk that follows another, start at the right size.
 */
export class Arena {
  readonly #account: BodyAccount;
  readonly #likelyBytes: number;
  #bytes: Buffer;
  #used = 0;
  #chargedBytes = 0;
  #isReleased = false;

  /** `likelyBytes` is where growing stops to double. */
  constructor(account: BodyAccount, capacity: number, likelyBytes: number) {
    this.#account = account;
    this.#likelyBytes = likelyBytes;
    this.#bytes = account.take(capacity);
  }

  get used(): number {
    return this.#used;
  }

  append(chunk: Uint8Array): void {
    const needed = this.#used + chunk.length;
    if (needed > this.#bytes.length) this.#grow(needed);
    this.#bytes.set(chunk, this.#used);
    this.#used = needed;
  }

  /** Forgets the last bytes, back to `end`. */
  cut(end: number): void {
    this.#used = end;
  }

  view(start: number, end: number): Buffer {
    return this.#bytes.subarray(start, end);
  }

  /** Counts what decompressing the bytes will take, for as long as they are here. */
  charge(bytes: number): void {
    this.#account.charge(bytes);
    this.#chargedBytes += bytes;
  }

  /** Gives the memory back; views of it must not be used any more. Harmless when repeated. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#account.giveBack(this.#bytes);
    this.#account.discharge(this.#chargedBytes);
  }

  #grow(needed: number): void {
    const larger = this.#account.take(Math.max(needed, this.#nextCapacity()));
    this.#bytes.copy(larger, 0, 0, this.#used);
    this.#account.giveBack(this.#bytes);
    this.#bytes = larger;
  }

  /** The last step goes to the likely size at once: one that stops short of it would have to be copied again. */
  #nextCapacity(): number {
    const doubled = 2 * this.#bytes.length;
    return 2 * doubled > this.#likelyBytes ? Math.max(this.#likelyBytes, this.#bytes.length) : doubled;
  }
}

/**
 * Pulls from the body only when bytes are asked for, which is the back-pressure. It never closes the body: closing a
 * request's stream destroys its socket, and the refusal could not be answered any more. Whoever serves the request
 * decides what becomes of unread bytes.
 */
export class ByteIntake {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #pending: Uint8Array = new Uint8Array(0);
  #received = 0;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#chunks = body[Symbol.asyncIterator]();
  }

  get received(): number {
    return this.#received;
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
