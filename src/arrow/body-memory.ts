import { LancegateError } from '../kernel/errors.ts';

const smallestClassBytes = 64 << 10;

export interface BodyMemoryLimits {
  /** What all bodies together may hold; beyond it, `SlowDown` (P7). */
  readonly maxBytes: number;
  /** What is kept for the next body when one is done. */
  readonly maxIdleBytes: number;
}

/**
 * The memory that bodies are received into: one budget for all of them, and buffers that are used again. Fresh memory for
 * every body costs more than receiving it: the kernel clears its pages, and V8 collects the whole heap every few tens of
 * megabytes of buffers (measured: 24 ms of collection per merge of 12.8 MB, none with buffers used again).
 *
 * Sizes are powers of two, so that a buffer fits the next body of about the same size; at most half of one is unused. A
 * buffer that was given back must not be looked at again: it may be another body's by then.
 */
export class BodyMemory {
  readonly #limits: BodyMemoryLimits;
  readonly #idle = new Map<number, Buffer[]>();
  #idleBytes = 0;
  #heldBytes = 0;

  constructor(limits: BodyMemoryLimits) {
    this.#limits = limits;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** True where a body that comes now would find no room. */
  get isFull(): boolean {
    return this.#heldBytes + smallestClassBytes > this.#limits.maxBytes;
  }

  take(leastBytes: number): Buffer {
    const bytes = classOf(leastBytes);
    if (this.#heldBytes + bytes > this.#limits.maxBytes) throw full();
    this.#heldBytes += bytes;
    const known = this.#idle.get(bytes)?.pop();
    if (known === undefined) return Buffer.allocUnsafeSlow(bytes);
    this.#idleBytes -= bytes;
    return known;
  }

  giveBack(buffer: Buffer): void {
    this.#heldBytes -= buffer.length;
    if (this.#idleBytes + buffer.length > this.#limits.maxIdleBytes) {
      free(buffer);
      return;
    }
    this.#idleBytes += buffer.length;
    const others = this.#idle.get(buffer.length);
    if (others === undefined) this.#idle.set(buffer.length, [buffer]);
    else others.push(buffer);
  }
}

const classOf = (bytes: number): number => 2 ** Math.ceil(Math.log2(Math.max(bytes, smallestClassBytes)));

/** At once, where the collector would see to it at its leisure. */
function free(buffer: Buffer): void {
  (buffer.buffer as ArrayBuffer).transfer(0);
}

const full = (): LancegateError =>
  new LancegateError('SlowDown', 'the bodies under way fill the memory set aside for them', { retryAfterSeconds: 1 });
