/**
 * The memory that bodies are received into: one quota for all of them, and buffers that are used again.
 *
 * It counts what a body holds from its admission to its answer: its buffers, its reservation, and what the engine and the
 * reading of keys will take to decompress it. It does not count what the engine needs in addition to merge and write;
 * docs/design/admission-and-memory.md has the factor.
 */
import { LancegateError } from '../kernel/errors.ts';
import type { ResidentLimit } from './resident-limit.ts';

/** An owner, such as a principal or a table, may have a share of a quota and no more. */
export interface Holder {
  readonly name: string;
  /** A refusal names it so. */
  readonly kind: 'principal' | 'table';
  /** It is a part of the whole, above 0 and at most 1. */
  readonly share: number;
}

/**
 * Many draw from this amount, each up to a fixed part of it (P7, P10). If one holder is alone, the other parts are idle; in
 * return one other cannot take everything, and what a holder can have does not depend on the others. Several holders that
 * work together can still take all of it.
 */
export class Quota {
  readonly max: number;
  readonly #what: string;
  readonly #heldBy = new Map<string, number>();
  readonly #refusals = new Map<string, LancegateError>();
  #held = 0;

  /** `what` completes "too many …" in a refusal. */
  constructor(max: number, what: string) {
    this.max = max;
    this.#what = what;
  }

  get held(): number {
    return this.#held;
  }

  /** Returns what these holders together could have if no other had anything. */
  largestFor(holders: readonly Holder[]): number {
    return Math.min(this.max, ...holders.map((holder) => this.#partOf(holder)));
  }

  /** `SlowDown` where `amount` does not fit now. Takes nothing. */
  requireRoom(amount: number, holders: readonly Holder[]): void {
    if (this.#held + amount > this.max) throw this.#full('at the same time');
    for (const holder of holders) {
      const held = this.#heldBy.get(holder.name) ?? 0;
      if (held + amount > this.#partOf(holder)) throw this.#full(`of this ${holder.kind} at the same time`);
    }
  }

  take(amount: number, holders: readonly Holder[]): void {
    this.requireRoom(amount, holders);
    this.#add(amount, holders);
  }

  giveBack(amount: number, holders: readonly Holder[]): void {
    this.#add(-amount, holders);
  }

  #add(amount: number, holders: readonly Holder[]): void {
    this.#held += amount;
    for (const { name } of holders) {
      const held = (this.#heldBy.get(name) ?? 0) + amount;
      if (held === 0) this.#heldBy.delete(name);
      else this.#heldBy.set(name, held);
    }
  }

  #partOf({ share }: Holder): number {
    return Math.max(1, Math.floor(this.max * share));
  }

  /** One error for each text, of which there are three: to make its stack takes long, and the stack says nothing. */
  #full(whose: string): LancegateError {
    const known = this.#refusals.get(whose);
    if (known !== undefined) return known;
    const refusal = new LancegateError('SlowDown', `too many ${this.#what} ${whose}`, { retryAfterSeconds: 1 });
    this.#refusals.set(whose, refusal);
    return refusal;
  }
}

const smallestClassBytes = 64 << 10;

export interface BodyMemoryLimits {
  /** What all bodies together may hold; beyond it, `SlowDown` (P7). */
  readonly maxBytes: number;
  /** How much this keeps for the next body when one is done. */
  readonly maxIdleBytes: number;
  /** Undefined where resident memory is not limited. */
  readonly resident?: Pick<ResidentLimit, 'requireRoom'>;
}

export class BodyMemory {
  readonly #quota: Quota;
  readonly #resident: BodyMemoryLimits['resident'];
  readonly #idle: IdleBuffers;

  constructor({ maxBytes, maxIdleBytes, resident }: BodyMemoryLimits) {
    this.#quota = new Quota(maxBytes, 'bytes in bodies');
    this.#resident = resident;
    this.#idle = new IdleBuffers(maxIdleBytes);
  }

  get heldBytes(): number {
    return this.#quota.held;
  }

  /** `SlowDown` for a body that has not begun if the process as a whole has no room; never for the only one. */
  requireResidentRoom(): void {
    this.#resident?.requireRoom(this.#quota.held === 0);
  }

  /** Opens an account for one body, on behalf of its sender and its table. */
  open(holders: readonly Holder[] = []): BodyAccount {
    return new BodyAccount(this.#quota, holders, this.#idle);
  }
}

/**
 * Buffers that are kept for the next body, by their length. Fresh memory for every body costs more than receiving it: the
 * kernel clears its pages, and V8 collects the whole heap every few tens of megabytes of buffers.
 */
class IdleBuffers {
  readonly #maxBytes: number;
  readonly #buffers = new Map<number, Buffer[]>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  take(bytes: number): Buffer {
    const known = this.#buffers.get(bytes)?.pop();
    if (known === undefined) return Buffer.allocUnsafeSlow(bytes);
    this.#bytes -= bytes;
    return known;
  }

  /** The buffer must not be used any more: it may be another body's. */
  giveBack(buffer: Buffer): void {
    if (this.#bytes + buffer.length > this.#maxBytes) {
      const { buffer: memory } = buffer;
      // Frees it at once; the collector would take its time.
      if (memory instanceof ArrayBuffer) memory.transfer(0);
      return;
    }
    this.#bytes += buffer.length;
    const others = this.#buffers.get(buffer.length);
    if (others === undefined) this.#buffers.set(buffer.length, [buffer]);
    else others.push(buffer);
  }
}

/**
 * What one body holds of the memory: as much as it uses, and never less than its reservation. A method that asks for more
 * throws `SlowDown` if there is no room now, and `BodyTooLarge` if there would be none for the body alone.
 */
export class BodyAccount {
  readonly #quota: Quota;
  readonly #holders: readonly Holder[];
  readonly #idle: IdleBuffers;
  #usedBytes = 0;
  #reservedBytes = 0;
  #heldBytes = 0;

  constructor(quota: Quota, holders: readonly Holder[], idle: IdleBuffers) {
    this.#quota = quota;
    this.#holders = holders;
    this.#idle = idle;
  }

  /** Reserves the first `bytes` that the body will use, until `release`. */
  promise(bytes: number): void {
    this.#hold(Math.max(this.#usedBytes, bytes));
    this.#reservedBytes = bytes;
  }

  /** The reservation ends; what is in use stays counted until it is given back. */
  release(): void {
    this.#reservedBytes = 0;
    this.#giveBackRest();
  }

  /** Refuses a body of `bytes` that would find no room now. Takes nothing. */
  requireRoom(bytes: number): void {
    this.#requirePossible(bytes);
    this.#quota.requireRoom(bytes, this.#holders);
  }

  take(leastBytes: number): Buffer {
    const bytes = bufferBytesFor(leastBytes);
    this.charge(bytes);
    return this.#idle.take(bytes);
  }

  giveBack(buffer: Buffer): void {
    const bytes = buffer.length;
    this.#idle.giveBack(buffer);
    this.discharge(bytes);
  }

  /** Counts memory that others will take on the body's account. */
  charge(bytes: number): void {
    this.#hold(Math.max(this.#reservedBytes, this.#usedBytes + bytes));
    this.#usedBytes += bytes;
  }

  discharge(bytes: number): void {
    this.#usedBytes -= bytes;
    this.#giveBackRest();
  }

  #hold(bytes: number): void {
    if (bytes <= this.#heldBytes) return;
    this.#requirePossible(bytes);
    this.#quota.take(bytes - this.#heldBytes, this.#holders);
    this.#heldBytes = bytes;
  }

  #giveBackRest(): void {
    const bytes = Math.max(this.#reservedBytes, this.#usedBytes);
    this.#quota.giveBack(this.#heldBytes - bytes, this.#holders);
    this.#heldBytes = bytes;
  }

  #requirePossible(bytes: number): void {
    const most = this.#quota.largestFor(this.#holders);
    if (bytes > most)
      throw new LancegateError(
        'BodyTooLarge',
        `the body takes ${bytes} bytes of memory, and one client or table can have ${most} here; send it in smaller parts`,
      );
  }
}

/** The buffer that `take` returns has this size. */
export function bufferBytesFor(leastBytes: number): number {
  if (leastBytes <= smallestClassBytes) return smallestClassBytes;
  // Buffers come in eight sizes for each doubling, so at most an eighth of one is unused.
  const step = 2 ** Math.floor(Math.log2(leastBytes)) / 8;
  return Math.ceil(leastBytes / step) * step;
}
