import type { AddressRemap, RowAddress } from './address-remap.ts';
import type { KeyDigests } from './key-hasher.ts';
import type { OrderedValue } from './key-values.ts';

/** It has the distinct keys of one or several sources, numbered from 0 in the order in which each comes first. */
export class KeySet {
  readonly #wordsPerKey: 2 | 4;
  /** They have numbers plus one; 0 is free. At most half of the slots are taken, and a search goes on in the next one. */
  readonly #slots: Int32Array;
  readonly #words: Uint32Array;
  #size = 0;

  constructor(wordsPerKey: 2 | 4, mostKeys: number) {
    this.#wordsPerKey = wordsPerKey;
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(2 * mostKeys + 2)));
    this.#words = new Uint32Array(mostKeys * wordsPerKey);
  }

  get size(): number {
    return this.#size;
  }

  /** Gives the digests of the keys, by their numbers. */
  get digests(): KeyDigests {
    return { wordsPerKey: this.#wordsPerKey, words: this.#words };
  }

  /** Answers the number of the key with digest `index`, which is `size - 1` now if it is new. */
  add({ words }: KeyDigests, index: number): number {
    const from = index * this.#wordsPerKey;
    const slot = this.#slotOf(words, from);
    if (this.#slots[slot] === 0) {
      for (let i = 0; i < this.#wordsPerKey; i++) this.#words[this.#size * this.#wordsPerKey + i] = words[from + i]!;
      this.#slots[slot] = ++this.#size;
    }
    return this.#slots[slot]! - 1;
  }

  /** Answers the number of the key with digest `index`, or -1 if the set does not have it. */
  indexOf({ words }: KeyDigests, index: number): number {
    return this.#slots[this.#slotOf(words, index * this.#wordsPerKey)]! - 1;
  }

  /** Returns the slot where the key is, or would be. */
  #slotOf(words: Uint32Array, from: number): number {
    const mask = this.#slots.length - 1;
    let slot = words[from]! & mask;
    while (this.#slots[slot] !== 0 && !this.#has(this.#slots[slot]! - 1, words, from)) slot = (slot + 1) & mask;
    return slot;
  }

  #has(number: number, words: Uint32Array, from: number): boolean {
    const at = number * this.#wordsPerKey;
    if (this.#words[at] !== words[from] || this.#words[at + 1] !== words[from + 1]) return false;
    if (this.#wordsPerKey === 2) return true;
    return this.#words[at + 2] === words[from + 2] && this.#words[at + 3] === words[from + 3];
  }
}

type Moves = Pick<AddressRemap, 'hasMoved' | 'newAddressOf'>;

/** Each partition grows by itself, so no growth takes long. */
const partitions = 256;
const firstSlots = 8;
/** A search for a free slot takes long in a fuller table. */
const maxLoad = 0.75;
const growth = 1.25;
/** A slot has the fragment and one more, so that 0 is a free one, the offset, and the digest. */
const addressWords = 2;

/** The most that a key takes in tables that are not small: a slot, filled to 60 % or more. */
export const mostBytesPerKey = (wordsPerKey: KeyDigests['wordsPerKey']): number =>
  ((wordsPerKey + addressWords) * 4) / (maxLoad / growth);

/** The most that a key of up to eight bytes takes. */
export const leastBytesPerKey = mostBytesPerKey(2);

/**
 * It has the row address of each key. A key of up to eight bytes takes 21 to 27 bytes outside the JavaScript heap, any other 32 to 40. To
 * find or set one among many is one wait for memory. Once versions of rows are set, each key takes 11 to 14 bytes more.
 */
export class KeyTable {
  readonly #partitions: (Slots | undefined)[] = Array.from({ length: partitions }, () => undefined);

  get bytes(): number {
    return this.#partitions.reduce((sum, partition) => sum + (partition?.bytes ?? 0), 0);
  }

  get size(): number {
    return this.#partitions.reduce((sum, partition) => sum + (partition?.size ?? 0), 0);
  }

  /** Finds the address of the row whose key has digest `index`. */
  find({ words, wordsPerKey }: KeyDigests, index: number): RowAddress | undefined {
    const from = index * wordsPerKey;
    return this.#partitions[partitionOf(words, from)]?.find(words, from);
  }

  /**
   * Returns the address that the key had before. All keys of a table have digests of one length. The version is that of the row at this
   * address: it stays when the row is moved, and no longer.
   */
  set(
    { words, wordsPerKey }: KeyDigests,
    index: number,
    address: RowAddress,
    version?: OrderedValue,
  ): RowAddress | undefined {
    const from = index * wordsPerKey;
    const partition = this.#partitions[partitionOf(words, from)] ?? new Slots(wordsPerKey);
    this.#partitions[partitionOf(words, from)] = partition;
    return partition.set(words, from, address, version);
  }

  /** Returns the version of the row of a key that is there; undefined if it is not known, or is not a number of up to eight bytes. */
  versionOf({ words, wordsPerKey }: KeyDigests, index: number): number | bigint | undefined {
    const from = index * wordsPerKey;
    return this.#partitions[partitionOf(words, from)]?.versionOf(words, from);
  }

  forgetVersions(): void {
    for (const partition of this.#partitions) partition?.forgetVersions();
  }

  /**
   * Applies a remap to each address, and forgets the keys of rows that are gone. Each step is one partition. Between two steps some
   * addresses are those from before.
   */
  *moveAll(moves: Moves): Iterable<void> {
    for (const partition of this.#partitions) {
      if (partition === undefined) continue;
      partition.moveAll(moves);
      yield;
    }
  }
}

/** What stands for no version is not kept as one. */
const noFloat = Number.NaN;
const noInteger = -(2n ** 63n);
const isInteger64 = (version: OrderedValue): version is bigint =>
  typeof version === 'bigint' && BigInt.asIntN(64, version) === version;

const partitionOf = (words: Uint32Array, from: number): number => words[from]! >>> 24;

/** A partition is a table with open addressing: a search begins where those 24 bits say that did not choose the partition. */
class Slots {
  readonly #step: number;
  #slots: Uint32Array;
  /** The version of each slot's row, from the first that was set: the values of one column are all of one kind. */
  #versions: Float64Array | BigInt64Array | undefined;
  #count = firstSlots;
  #size = 0;

  constructor(wordsPerKey: number) {
    this.#step = addressWords + wordsPerKey;
    this.#slots = new Uint32Array(this.#step * firstSlots);
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    // A partition without its slots takes 340 bytes, as was measured.
    return 340 + this.#slots.byteLength + (this.#versions?.byteLength ?? 0);
  }

  find(words: Uint32Array, from: number): RowAddress | undefined {
    return this.#addressAt(this.#slotOf(words, from));
  }

  versionOf(words: Uint32Array, from: number): number | bigint | undefined {
    const version = this.#versions?.[this.#slotOf(words, from) / this.#step];
    return version === noInteger || Number.isNaN(version) ? undefined : version;
  }

  forgetVersions(): void {
    this.#versions = undefined;
  }

  set(words: Uint32Array, from: number, address: RowAddress, version: OrderedValue): RowAddress | undefined {
    let at = this.#slotOf(words, from);
    const before = this.#addressAt(at);
    if (before === undefined) {
      if (this.#size + 1 > this.#count * maxLoad) {
        this.#rebuild(Math.ceil(this.#count * growth));
        at = this.#slotOf(words, from);
      }
      for (let i = addressWords; i < this.#step; i++) this.#slots[at + i] = words[from + i - addressWords]!;
      this.#size += 1;
    }
    this.#put(at, address);
    this.#setVersion(at / this.#step, version);
    return before;
  }

  moveAll(moves: Moves): void {
    const before = this.#size;
    for (let at = 0; at < this.#slots.length; at += this.#step) {
      const address = this.#addressAt(at);
      if (address === undefined || !moves.hasMoved(address.fragment)) continue;
      const now = moves.newAddressOf(address);
      this.#put(at, now);
      if (now === undefined) this.#size -= 1;
    }
    // A search ends at the first free slot, so those that became free may hide keys behind them.
    if (this.#size < before)
      this.#rebuild(Math.min(this.#count, Math.max(firstSlots, Math.ceil(this.#size / (maxLoad / growth)))));
  }

  #addressAt(at: number): RowAddress | undefined {
    const fragment = this.#slots[at]!;
    return fragment === 0 ? undefined : { fragment: fragment - 1, offset: this.#slots[at + 1]! };
  }

  #put(at: number, address: RowAddress | undefined): void {
    this.#slots[at] = address === undefined ? 0 : address.fragment + 1;
    this.#slots[at + 1] = address?.offset ?? 0;
  }

  #setVersion(slot: number, version: OrderedValue): void {
    if (typeof version === 'number') this.#versions ??= new Float64Array(this.#count).fill(noFloat);
    if (typeof version === 'bigint') this.#versions ??= new BigInt64Array(this.#count).fill(noInteger);
    const versions = this.#versions;
    if (versions instanceof Float64Array) versions[slot] = typeof version === 'number' ? version : noFloat;
    else if (versions !== undefined) versions[slot] = isInteger64(version) ? version : noInteger;
  }

  /** Returns the slot where the key is, or would be. */
  #slotOf(words: Uint32Array, from: number): number {
    let at = this.#firstSlotOf(words[from]!);
    while (this.#slots[at] !== 0 && !this.#has(at + addressWords, words, from)) at = this.#next(at);
    return at;
  }

  #has(at: number, words: Uint32Array, from: number): boolean {
    const slots = this.#slots;
    if (slots[at] !== words[from] || slots[at + 1] !== words[from + 1]) return false;
    return this.#step === addressWords + 2 || (slots[at + 2] === words[from + 2] && slots[at + 3] === words[from + 3]);
  }

  #firstSlotOf(word: number): number {
    return Math.floor(((word & 0xff_ffff) * this.#count) / 2 ** 24) * this.#step;
  }

  #next(at: number): number {
    return at + this.#step === this.#slots.length ? 0 : at + this.#step;
  }

  #rebuild(count: number): void {
    const [old, versions] = [this.#slots, this.#versions];
    this.#slots = new Uint32Array(this.#step * count);
    this.#versions = undefined;
    this.#count = count;
    for (let from = 0; from < old.length; from += this.#step) {
      if (old[from] === 0) continue;
      let at = this.#firstSlotOf(old[from + addressWords]!);
      while (this.#slots[at] !== 0) at = this.#next(at);
      for (let i = 0; i < this.#step; i++) this.#slots[at + i] = old[from + i]!;
      if (versions !== undefined) this.#setVersion(at / this.#step, versions[from / this.#step]);
    }
  }
}
