import type { CanonicalKey } from '../../keys/key-columns.ts';

/** Says which mark a key has: an integer from 0 to 2^40 − 1, spread evenly. Keys that differ seldom have the same. */
export interface KeyHash {
  markOf(key: CanonicalKey): number;
}

/**
 * Two lanes of 32 bits, ended as MurmurHash3 (Appleby) ends them: every bit of the key has a say in every bit of the mark.
 * The seed should be known to nobody else: who could choose keys whose marks meet would make everybody wait for the
 * search among them (P10).
 */
export class SeededKeyHash implements KeyHash {
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed | 0;
  }

  markOf(key: CanonicalKey): number {
    if (typeof key !== 'number' || !Number.isSafeInteger(key)) return this.#markOfText(String(key));
    return this.#mark(key | 0, Math.floor(key / 2 ** 32) | 0);
  }

  #markOfText(text: string): number {
    let first = this.#seed;
    let second = ~this.#seed;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      first = Math.imul(first ^ code, 0x9e37_79b1);
      second = Math.imul(second ^ code, 0x85eb_ca77);
      first ^= second >>> 15;
    }
    return this.#mark(first, second ^ text.length);
  }

  #mark(low: number, high: number): number {
    const first = mixed(Math.imul(low ^ this.#seed, 0x9e37_79b1) + Math.imul(high ^ this.#seed, 0x85eb_ca77));
    const second = mixed(Math.imul(high + first, 0xc2b2_ae3d) + Math.imul(low, 0x27d4_eb2f));
    return (second >>> 24) * 2 ** 32 + first;
  }
}

function mixed(hash: number): number {
  let mix = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2_ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}
