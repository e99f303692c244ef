import type { AddressRemap, RowAddress } from '../engine/port/row-address.ts';
import type { CanonicalKey } from './key-columns.ts';
import { digestWords, exactWords, type KeyDigest } from './key-digest.ts';

type Moving = Pick<AddressRemap, 'hasMoved' | 'placeOf'>;

/** Of integers, and of other keys. Each grows by itself: that takes 0.1 ms at a million keys, 1 ms at ten million. */
const parts = 256;
const firstSlots = 8;
/** Beyond it, looking for a free slot takes long. */
const maxLoad = 0.75;
const growth = 1.25;
/** A slot has the fragment and one more, so that 0 is a free one, the offset, and the words of the key. */
const wordsOfPlace = 2;
/** Of a part besides its slots. Measured. */
const bytesPerPart = 340;

/** An integer takes so many bytes at most, in tables that are not small: a slot, filled to 60 % or more. */
export const mostBytesPerPlace = ((exactWords + wordsOfPlace) * 4) / (maxLoad / growth);
/** Any other key. */
export const mostBytesPerDigestPlace = ((digestWords + wordsOfPlace) * 4) / (maxLoad / growth);

/**
 * Where the row with each key is stored. Keys are told apart by what `KeyDigest` knows them by. An integer takes 21 to
 * 27 bytes outside the JavaScript heap, any other key 32 to 40.
 *
 * To find or set one takes 40 ns besides the digest while all are in the processor's cache, and 200 among a million, as
 * in a `Map`: one wait for memory. A new one takes 400, with its part of the growing.
 */
export class KeyTable {
  readonly #digest: KeyDigest;
  /** Of the key at hand. */
  readonly #words = new Uint32Array(digestWords);
  /** Those of integers, then those of others. */
  readonly #parts: (Slots | undefined)[] = Array.from({ length: 2 * parts }, () => undefined);

  constructor(digest: KeyDigest) {
    this.#digest = digest;
  }

  get bytes(): number {
    return this.#parts.reduce((sum, part) => sum + (part?.bytes ?? 0), 0);
  }

  get size(): number {
    return this.#parts.reduce((sum, part) => sum + (part?.size ?? 0), 0);
  }

  find(key: CanonicalKey): RowAddress | undefined {
    const keyWords = this.#digest.write(key, this.#words);
    const spread = this.#digest.spread(this.#words[0]!, this.#words[1]!);
    return this.#parts[partOf(keyWords, spread)]?.find(this.#words, spread);
  }

  /** Answers the place it had before. */
  set(key: CanonicalKey, fragment: number, offset: number): RowAddress | undefined {
    const keyWords = this.#digest.write(key, this.#words);
    const spread = this.#digest.spread(this.#words[0]!, this.#words[1]!);
    const part = this.#parts[partOf(keyWords, spread)] ?? new Slots(this.#digest, keyWords);
    this.#parts[partOf(keyWords, spread)] = part;
    return part.set(this.#words, spread, { fragment, offset });
  }

  /**
   * Asks for each place where it is now, and forgets the keys of those that are nowhere. Each step is a part: at four
   * million keys 0.3 ms, and 1 ms where some are forgotten. Whoever stops in between has places of before and of after.
   */
  *moveAll(moved: Moving): Iterable<void> {
    for (const part of this.#parts) {
      if (part === undefined) continue;
      part.moveAll(moved);
      yield;
    }
  }
}

const partOf = (keyWords: number, spread: number): number => (keyWords === exactWords ? 0 : parts) + (spread >>> 24);

/** One part, by open addressing: a search begins where the 24 bits say that did not choose the part. */
class Slots {
  readonly #digest: KeyDigest;
  readonly #step: number;
  #slots: Uint32Array;
  #count = firstSlots;
  #size = 0;

  constructor(digest: KeyDigest, keyWords: number) {
    this.#digest = digest;
    this.#step = wordsOfPlace + keyWords;
    this.#slots = new Uint32Array(this.#step * firstSlots);
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return bytesPerPart + this.#slots.byteLength;
  }

  find(words: Uint32Array, spread: number): RowAddress | undefined {
    return this.#placeAt(this.#slotOf(words, spread));
  }

  set(words: Uint32Array, spread: number, place: RowAddress): RowAddress | undefined {
    let at = this.#slotOf(words, spread);
    const before = this.#placeAt(at);
    if (before === undefined) {
      if (this.#size + 1 > this.#count * maxLoad) {
        this.#rebuild(Math.ceil(this.#count * growth));
        at = this.#slotOf(words, spread);
      }
      for (let i = wordsOfPlace; i < this.#step; i++) this.#slots[at + i] = words[i - wordsOfPlace]!;
      this.#size += 1;
    }
    this.#put(at, place);
    return before;
  }

  moveAll(moved: Moving): void {
    const before = this.#size;
    for (let at = 0; at < this.#slots.length; at += this.#step) {
      const fragment = this.#slots[at]!;
      if (fragment === 0 || !moved.hasMoved(fragment - 1)) continue;
      const now = moved.placeOf({ fragment: fragment - 1, offset: this.#slots[at + 1]! });
      this.#put(at, now);
      if (now === undefined) this.#size -= 1;
    }
    // A search ends at the first free slot, so those that became free may hide keys behind them.
    if (this.#size < before) this.#rebuild(Math.min(this.#count, this.#slotsWanted()));
  }

  #slotsWanted(): number {
    return Math.max(firstSlots, Math.ceil(this.#size / (maxLoad / growth)));
  }

  #placeAt(at: number): RowAddress | undefined {
    const fragment = this.#slots[at]!;
    return fragment === 0 ? undefined : { fragment: fragment - 1, offset: this.#slots[at + 1]! };
  }

  #put(at: number, place: RowAddress | undefined): void {
    this.#slots[at] = place === undefined ? 0 : place.fragment + 1;
    this.#slots[at + 1] = place?.offset ?? 0;
  }

  /** Where the key is, or would be. */
  #slotOf(words: Uint32Array, spread: number): number {
    const slots = this.#slots;
    let at = this.#firstSlotOf(spread);
    while (slots[at] !== 0 && !this.#has(at, words)) at = at + this.#step === slots.length ? 0 : at + this.#step;
    return at;
  }

  #has(at: number, words: Uint32Array): boolean {
    const slots = this.#slots;
    if (slots[at + 2] !== words[0] || slots[at + 3] !== words[1]) return false;
    return this.#step === wordsOfPlace + exactWords || (slots[at + 4] === words[2] && slots[at + 5] === words[3]);
  }

  #firstSlotOf(spread: number): number {
    return Math.floor(((spread & 0xff_ffff) * this.#count) / 2 ** 24) * this.#step;
  }

  #rebuild(count: number): void {
    const old = this.#slots;
    const slots = new Uint32Array(this.#step * count);
    this.#slots = slots;
    this.#count = count;
    for (let from = 0; from < old.length; from += this.#step) {
      if (old[from] === 0) continue;
      let at = this.#firstSlotOf(this.#digest.spread(old[from + 2]!, old[from + 3]!));
      while (slots[at] !== 0) at = at + this.#step === slots.length ? 0 : at + this.#step;
      for (let i = 0; i < this.#step; i++) slots[at + i] = old[from + i]!;
    }
  }
}
