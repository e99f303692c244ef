import type { CanonicalKey } from './key-columns.ts';

/** What a key takes that is known by itself, and what any other does. */
export const exactWords = 2;
export const digestWords = 4;

/** What keys are known by: words of 32 bits. */
export interface KeyDigest {
  /**
   * Into `words`, of which there are four. Answers how many it took: two for keys that are known by themselves, four
   * for others.
   */
  write(key: CanonicalKey, words: Uint32Array): typeof exactWords | typeof digestWords;
  /** Where to look for a key with these first two words: an integer from 0 to 2^32 − 1. Decides about speed alone. */
  spread(first: number, second: number): number;
}

/** The first word of a message: '0.5' is not 0.5. */
const typeOf = { text: 0, float: 1, positive: 2, negative: 3 } as const;
const secretWords = 8;
/** Of messages, with which no memory is asked for: texts of 510 letters. */
const heldWords = 256;

/**
 * Safe integers are known by themselves. Any other key is by two HalfSipHashes under different secrets, 128 bits: of
 * 10^9 keys two have the same once in 10^20 tables, and who does not know the secret cannot look for two.
 *
 * An integer takes 5 ns, one beyond the safe ones 220, a fraction 100, a text of 12 letters 150 and 7 for each more.
 */
export class SecretKeyDigest implements KeyDigest {
  readonly #first: HalfSipHash;
  readonly #second: HalfSipHash;
  readonly #added: readonly [number, number];
  readonly #factors: readonly [number, number];
  readonly #held = new Uint32Array(heldWords);
  readonly #float = new Float64Array(1);
  readonly #floatWords = new Uint32Array(this.#float.buffer);

  /** `secret` is of 8 words, which should be random and known to nobody else (P10). */
  constructor(secret: Uint32Array) {
    const [k0, k1, k2, k3, a0, a1, f0, f1] = secret;
    if (secret.length < secretWords) throw new Error(`a secret of ${secret.length} words is too short`);
    this.#first = new HalfSipHash(k0!, k1!);
    this.#second = new HalfSipHash(k2!, k3!);
    this.#added = [a0! | 0, a1! | 0];
    this.#factors = [f0! | 1, f1! | 1];
  }

  write(key: CanonicalKey, words: Uint32Array): typeof exactWords | typeof digestWords {
    if (typeof key === 'number' && Number.isSafeInteger(key) && !Object.is(key, -0)) {
      words[0] = key;
      words[1] = Math.floor(key / 2 ** 32);
      return exactWords;
    }
    if (typeof key === 'number') this.#writeFloat(key, words);
    else if (typeof key === 'string') this.#writeText(typeOf.text, key, words);
    else this.#writeText(key < 0n ? typeOf.negative : typeOf.positive, key.toString(16), words);
    return digestWords;
  }

  /** Ends as MurmurHash3 (Appleby) does. Its factors are secret too: keys that meet make everybody wait (P10). */
  spread(first: number, second: number): number {
    let mix = Math.imul(first ^ this.#added[0], this.#factors[0]);
    mix = Math.imul((mix ^ (mix >>> 16)) + (second ^ this.#added[1]), this.#factors[1]);
    mix = Math.imul(mix ^ (mix >>> 15), 0x85eb_ca6b);
    mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2_ae35);
    return (mix ^ (mix >>> 16)) >>> 0;
  }

  #writeFloat(key: number, words: Uint32Array): void {
    this.#float[0] = key;
    this.#held[0] = typeOf.float;
    this.#held[1] = this.#floatWords[0]!;
    this.#held[2] = this.#floatWords[1]!;
    this.#hash(this.#held, 12, words);
  }

  /** Two letters to a word; the hash has the length in its end. */
  #writeText(type: number, text: string, words: Uint32Array): void {
    const count = 1 + Math.ceil(text.length / 2);
    const message = count <= heldWords ? this.#held : new Uint32Array(count);
    message[0] = type;
    let at = 1;
    let letter = 0;
    for (; letter + 1 < text.length; letter += 2) {
      message[at++] = text.charCodeAt(letter) | (text.charCodeAt(letter + 1) << 16);
    }
    if (letter < text.length) message[at] = text.charCodeAt(letter);
    this.#hash(message, 4 + 2 * text.length, words);
  }

  #hash(message: Uint32Array, bytes: number, words: Uint32Array): void {
    this.#first.write(message, bytes, words, 0);
    this.#second.write(message, bytes, words, 2);
  }
}

/** HalfSipHash-2-4 (Aumasson and Bernstein) with a result of 64 bits. */
export class HalfSipHash {
  readonly #low: number;
  readonly #high: number;
  readonly #state = new Int32Array(4);

  constructor(low: number, high: number) {
    this.#low = low | 0;
    this.#high = high | 0;
  }

  /** Of so many bytes of the message, of which each word has its lowest first, into two words from `at`. */
  write(message: Uint32Array, bytes: number, words: Uint32Array, at: number): void {
    const state = this.#state;
    state[0] = this.#low;
    state[1] = this.#high ^ 0xee;
    state[2] = this.#low ^ 0x6c79_6765;
    state[3] = this.#high ^ 0x7465_6462;
    const full = bytes >>> 2;
    for (let i = 0; i < full; i++) absorb(state, message[i]!);
    const left = (bytes & 3) === 0 ? 0 : message[full]! & ((1 << (8 * (bytes & 3))) - 1);
    absorb(state, (bytes << 24) | left);
    state[2]! ^= 0xee;
    turn(state, 4);
    words[at] = state[1]! ^ state[3]!;
    state[1]! ^= 0xdd;
    turn(state, 4);
    words[at + 1] = state[1]! ^ state[3]!;
  }
}

function absorb(state: Int32Array, word: number): void {
  state[3]! ^= word;
  turn(state, 2);
  state[0]! ^= word;
}

function turn(state: Int32Array, rounds: number): void {
  let v0 = state[0]!;
  let v1 = state[1]!;
  let v2 = state[2]!;
  let v3 = state[3]!;
  for (let round = 0; round < rounds; round++) {
    v0 = (v0 + v1) | 0;
    v1 = rotated(v1, 5) ^ v0;
    v2 = (v2 + v3) | 0;
    v3 = rotated(v3, 8) ^ v2;
    v0 = (rotated(v0, 16) + v3) | 0;
    v3 = rotated(v3, 7) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = rotated(v1, 13) ^ v2;
    v2 = rotated(v2, 16);
  }
  state[0] = v0;
  state[1] = v1;
  state[2] = v2;
  state[3] = v3;
}

const rotated = (word: number, by: number): number => (word << by) | (word >>> (32 - by));
