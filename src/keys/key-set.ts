import type { KeyDigests } from './key-hasher.ts';

/**
 * The distinct keys of one or several sources. It numbers them in the order in which they come first: 0, 1, 2, and so on, so that
 * whatever belongs to a key can stand in an array.
 */
export class KeySet {
  readonly #wordsPerKey: 2 | 4;
  /** Numbers plus one; 0 is free. At most half of the slots are taken, and a search goes on in the next one. */
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

  /** The digests of the keys, by their numbers. */
  get digests(): KeyDigests {
    return { wordsPerKey: this.#wordsPerKey, words: this.#words };
  }

  /** The number of the key with digest `index`, which is `size - 1` now if it is new. */
  add({ words }: KeyDigests, index: number): number {
    const from = index * this.#wordsPerKey;
    const slot = this.#slotOf(words, from);
    if (this.#slots[slot] === 0) {
      for (let i = 0; i < this.#wordsPerKey; i++) this.#words[this.#size * this.#wordsPerKey + i] = words[from + i]!;
      this.#slots[slot] = ++this.#size;
    }
    return this.#slots[slot]! - 1;
  }

  /** The number of the key with digest `index`, or -1 if the set does not have it. */
  indexOf({ words }: KeyDigests, index: number): number {
    return this.#slots[this.#slotOf(words, index * this.#wordsPerKey)]! - 1;
  }

  /** Where the key is, or would be. */
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
