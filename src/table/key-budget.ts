import type { CanonicalKey } from '../arrow/key-columns.ts';
import type { Clock } from '../kernel/clock.ts';

/** What `KeyRows` takes for a key: an integer has its place there, others are in a map, a text with its characters. Measured. */
const bytesPerInteger = 24;
const bytesPerKey = 60;
const bytesPerTextKey = 90;

function bytesOf(key: CanonicalKey): number {
  if (typeof key === 'string') return bytesPerTextKey + 2 * key.length;
  return Number.isInteger(key) ? bytesPerInteger : bytesPerKey;
}

/** Keys used within this time are nobody else's to push out: two busy tables would read theirs anew at every commit. */
const inUseMs = 10_000;

/** The keys that one writer holds in memory. */
export interface KeyHold {
  /** Counts one more key. False where there is no room: then nothing is held any more. */
  take(key: CanonicalKey): boolean;
  touch(): void;
  /** May be called more than once. */
  release(): void;
}

/**
 * What the keys known of all tables may take together (P7): a table has as many keys, and as long ones, as its writers
 * like. Where there is no room, those of tables that were not merged into lately are forgotten.
 */
export class KeyBudget {
  readonly #maxBytes: number;
  readonly #clock: Clock;
  /** The least recently used first. */
  readonly #holds = new Set<Hold>();
  #heldBytes = 0;

  constructor(maxBytes: number, clock: Clock) {
    this.#maxBytes = maxBytes;
    this.#clock = clock;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** `forget` is called when others need the room. */
  open(forget: () => void): KeyHold {
    const hold: Hold = { bytes: 0, usedAtMs: this.#clock.nowMs(), forget };
    this.#holds.add(hold);
    return {
      take: (key) => this.#take(hold, bytesOf(key)),
      touch: () => this.#touch(hold),
      release: () => this.#release(hold),
    };
  }

  #take(hold: Hold, bytes: number): boolean {
    if (!this.#holds.has(hold)) return false;
    if (this.#heldBytes + bytes > this.#maxBytes) this.#makeRoom(hold, bytes);
    if (this.#heldBytes + bytes > this.#maxBytes) {
      this.#release(hold);
      return false;
    }
    hold.bytes += bytes;
    this.#heldBytes += bytes;
    return true;
  }

  #makeRoom(asking: Hold, bytes: number): void {
    const nowMs = this.#clock.nowMs();
    for (const hold of [...this.#holds]) {
      if (this.#heldBytes + bytes <= this.#maxBytes) return;
      if (hold === asking || nowMs - hold.usedAtMs < inUseMs) continue;
      this.#release(hold);
      hold.forget();
    }
  }

  #touch(hold: Hold): void {
    hold.usedAtMs = this.#clock.nowMs();
    if (this.#holds.delete(hold)) this.#holds.add(hold);
  }

  #release(hold: Hold): void {
    if (this.#holds.delete(hold)) this.#heldBytes -= hold.bytes;
  }
}

interface Hold {
  bytes: number;
  usedAtMs: number;
  readonly forget: () => void;
}
