import type { CanonicalKey } from '../arrow/key-columns.ts';

/** Most tables grow a part at a time: no single step of growing takes longer than a millisecond. */
const parts = 256;
const firstSlots = 16;
/** Beyond it, looking for a free slot takes long. */
const maxLoad = 0.7;
const empty = Number.NaN;

/**
 * How many rows have each key. Integers, which most keys are, take 12 to 23 bytes outside the JavaScript heap, where a `Map`
 * takes 60 in it and has the collector visit them: open addressing in one `Float64Array` for each part of the keys.
 */
export class KeyRows {
  readonly #integers: IntegerSet[] = Array.from({ length: parts }, () => new IntegerSet());
  /** Other keys, and integers that several rows have. */
  readonly #counts = new Map<CanonicalKey, number>();
  #size = 0;

  /** Keys, not rows. */
  get size(): number {
    return this.#size;
  }

  get(key: CanonicalKey): number {
    const count = this.#counts.get(key);
    if (count !== undefined) return count;
    return isInteger(key) && this.#setOf(key).has(key) ? 1 : 0;
  }

  /** One more row with this key. */
  add(key: CanonicalKey): void {
    const before = this.get(key);
    if (before === 0) this.#size += 1;
    if (before === 0 && isInteger(key)) this.#setOf(key).add(key);
    else this.#counts.set(key, before + 1);
  }

  #setOf(key: number): IntegerSet {
    return this.#integers[hashOfInteger(key) >>> 24] as IntegerSet;
  }
}

/** Of a number that is not an integer most bits would be lost in the hash. */
const isInteger = (key: CanonicalKey): key is number => typeof key === 'number' && Number.isInteger(key);

/** The end is that of MurmurHash3 (Appleby): every bit of the key has a say in the part it goes to and in its slot. */
export function hashOfInteger(key: number): number {
  const high = Math.floor(key / 2 ** 32);
  let hash = Math.imul(key | 0, 0x9e37_79b1) + Math.imul(high, 0x85eb_ca77);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

class IntegerSet {
  #slots = new Float64Array(firstSlots).fill(empty);
  #size = 0;

  has(key: number): boolean {
    return this.#slots[this.#slotOf(key)] === key;
  }

  /** One that is not there yet. */
  add(key: number): void {
    if (this.#size + 1 > this.#slots.length * maxLoad) this.#grow();
    this.#slots[this.#slotOf(key)] = key;
    this.#size += 1;
  }

  /** Where the key is, or would be. */
  #slotOf(key: number): number {
    const mask = this.#slots.length - 1;
    let slot = hashOfInteger(key) & mask;
    for (;;) {
      const found = this.#slots[slot] as number;
      if (found === key || Number.isNaN(found)) return slot;
      slot = (slot + 1) & mask;
    }
  }

  #grow(): void {
    const old = this.#slots;
    this.#slots = new Float64Array(old.length * 2).fill(empty);
    for (const key of old) if (!Number.isNaN(key)) this.#slots[this.#slotOf(key)] = key;
  }
}
