import type { Clock } from '../kernel/clock.ts';

/** The key index of one branch has a part of the quota. */
export interface KeyHold {
  /** The keys take so many bytes now. False where there is no room: what was held still is, until `release`. */
  resize(bytes: number): boolean;
  touch(): void;
  /** May be called more than once. */
  release(): void;
}

/**
 * What the key indexes of all tables may take together (P7): a table has as many keys as its writers like. If there is no
 * room, the indexes of tables that were not merged into lately are forgotten, if that is enough.
 */
export class KeyBudget {
  readonly #maxBytes: number;
  readonly #clock: Clock;
  /** The least recently used comes first. */
  readonly #holds = new Set<Hold>();
  #heldBytes = 0;

  constructor(maxBytes: number, clock: Clock) {
    this.#maxBytes = maxBytes;
    this.#clock = clock;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** `forget` is called when other key indexes need the room. */
  open(forget: () => void): KeyHold {
    const hold: Hold = { bytes: 0, usedAtMs: this.#clock.nowMs(), forget };
    this.#holds.add(hold);
    return {
      resize: (bytes) => this.#resize(hold, bytes),
      touch: () => this.#touch(hold),
      release: () => this.#release(hold),
    };
  }

  #resize(hold: Hold, bytes: number): boolean {
    if (!this.#holds.has(hold)) return false;
    if (!this.#makeRoom(hold, bytes - hold.bytes)) return false;
    this.#heldBytes += bytes - hold.bytes;
    hold.bytes = bytes;
    return true;
  }

  #makeRoom(asking: Hold, bytes: number): boolean {
    let missingBytes = this.#heldBytes + bytes - this.#maxBytes;
    if (missingBytes <= 0) return true;
    const leaving: Hold[] = [];
    for (const hold of this.#holds) {
      if (missingBytes <= 0) break;
      // Keys used within this time stay, whatever other tables need; else two busy tables would read theirs anew at
      // every commit.
      if (hold === asking || this.#clock.nowMs() - hold.usedAtMs < 10_000) continue;
      leaving.push(hold);
      missingBytes -= hold.bytes;
    }
    if (missingBytes > 0) return false;
    for (const hold of leaving) {
      this.#release(hold);
      hold.forget();
    }
    return true;
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
