import type { CanonicalKey } from '../../keys/key-columns.ts';
import type { KeyHash } from './fingerprint.ts';

/** Most tables grow a part at a time: no single step of growing takes longer than a millisecond. */
const parts = 256;
const firstSlots = 8;
/** Beyond it, looking for a free slot takes long. */
const maxLoad = 0.75;
const growth = 1.25;
const bytesPerSlot = 4;
/** Of an entry of a `Map` of numbers, and of a part besides its slots. Measured. */
const bytesPerCount = 60;
const bytesPerPart = 200;

/** A key that one row has takes so many bytes at most, in tables that are not small: a slot, filled to 60 % or more. */
export const mostBytesPerKey = bytesPerSlot / (maxLoad / growth);

/**
 * How many rows have each key, or more: keys are held as 40 bits of a hash, so two that differ may count as one, a
 * key in 10^12 times those there are. Never fewer, which is what lets its answers be proved by totals (`agreesWithTotals`).
 * Whatever its type a key takes 5 to 7 bytes outside the JavaScript heap, where a `Map` of the keys themselves takes 60 and
 * more in it and has the collector visit them.
 *
 * The first 8 bits choose a part; there the other 32 are in a `Uint32Array`, by open addressing.
 */
export class KeyRows {
  readonly #hash: KeyHash;
  readonly #parts: (MarkSet | undefined)[] = Array.from({ length: parts }, () => undefined);
  /** Of marks that several rows have. */
  readonly #counts = new Map<number, number>();
  #partBytes = 0;

  constructor(hash: KeyHash) {
    this.#hash = hash;
  }

  get bytes(): number {
    return this.#partBytes + this.#counts.size * bytesPerCount;
  }

  get(key: CanonicalKey): number {
    return this.#rowsWith(this.#hash.markOf(key));
  }

  /** One more row with this key. */
  add(key: CanonicalKey): void {
    const mark = this.#hash.markOf(key);
    const before = this.#rowsWith(mark);
    if (before > 0) this.#counts.set(mark, before + 1);
    else this.#addMark(mark);
  }

  /** A row with this key, unless there is one. */
  addIfNew(key: CanonicalKey): void {
    const mark = this.#hash.markOf(key);
    if (this.#rowsWith(mark) === 0) this.#addMark(mark);
  }

  /** A row with each key of `others`, unless there is one. */
  addAllNew(others: KeyRows): void {
    for (const [part, set] of others.#parts.entries()) {
      for (const rest of set?.marks() ?? []) {
        const mark = part * 2 ** 32 + rest;
        if (this.#rowsWith(mark) === 0) this.#addMark(mark);
      }
    }
  }

  #rowsWith(mark: number): number {
    if (this.#parts[partOf(mark)]?.has(restOf(mark)) !== true) return 0;
    return this.#counts.get(mark) ?? 1;
  }

  #addMark(mark: number): void {
    const part = partOf(mark);
    const set = this.#parts[part] ?? new MarkSet();
    this.#partBytes -= this.#parts[part]?.bytes ?? 0;
    this.#parts[part] = set;
    set.add(restOf(mark));
    this.#partBytes += set.bytes;
  }
}

const partOf = (mark: number): number => Math.floor(mark / 2 ** 32);
/** A free slot is 0, so what would be is 1. */
const restOf = (mark: number): number => mark >>> 0 || 1;

class MarkSet {
  #slots = new Uint32Array(firstSlots);
  #size = 0;

  get bytes(): number {
    return bytesPerPart + this.#slots.length * bytesPerSlot;
  }

  has(mark: number): boolean {
    return this.#slots[this.#slotOf(mark)] === mark;
  }

  *marks(): Iterable<number> {
    for (const mark of this.#slots) if (mark !== 0) yield mark;
  }

  /** One that is not there yet. */
  add(mark: number): void {
    if (this.#size + 1 > this.#slots.length * maxLoad) this.#grow();
    this.#slots[this.#slotOf(mark)] = mark;
    this.#size += 1;
  }

  /** Where the mark is, or would be. */
  #slotOf(mark: number): number {
    const slots = this.#slots;
    let slot = Math.floor((mark * slots.length) / 2 ** 32);
    for (;;) {
      const found = slots[slot];
      if (found === mark || found === 0) return slot;
      slot = slot + 1 === slots.length ? 0 : slot + 1;
    }
  }

  #grow(): void {
    const old = this.#slots;
    this.#slots = new Uint32Array(Math.ceil(old.length * growth));
    for (const mark of old) if (mark !== 0) this.#slots[this.#slotOf(mark)] = mark;
  }
}
