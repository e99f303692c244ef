import { setImmediate } from 'node:timers/promises';
import { bytesOfBits, columnLayout } from '../arrow/schema/schema.ts';
import { LancegateError } from '../kernel/errors.ts';
import { paired } from '../kernel/paired.ts';
import { type KeyColumn, type KeyValues, measureKeys } from './key-values.ts';

/**
 * The digest of key `i` is `wordsPerKey` words of 32 bits, from `i * wordsPerKey` on. All keys of the same columns
 * of a table have equally many words.
 */
export interface KeyDigests {
  readonly wordsPerKey: 2 | 4;
  readonly words: Uint32Array;
}

/** Makes the digest of key `index` a text, for where keys are few. */
export const textOfDigest = ({ words, wordsPerKey }: KeyDigests, index: number): string =>
  words.subarray(index * wordsPerKey, (index + 1) * wordsPerKey).join(' ');

/** It is about ten milliseconds of work, after which other requests have the event loop (P10). */
export const rowsPerSlice = 1 << 15;
const bytesPerSlice = 2 << 20;

/**
 * Makes digests: equal for equal keys, in every source and for the rows of the table.
 *
 * A key of up to eight bytes is encrypted, so that two digests are equal only where the keys are. Any other key is hashed to 128
 * bits: of 10^9 keys two have the same digest once in 10^20 tables. A client that does not know the secret can neither look for
 * two such keys nor choose keys that collide in a hash table (P10).
 */
export class KeyHasher {
  readonly #cipher: Speck;
  readonly #hash: SipHash;

  /** `secret` is eight random words. */
  constructor(secret: Uint32Array) {
    if (secret.length < 8) throw new LancegateError('Internal', `a secret of ${secret.length} words`);
    this.#cipher = new Speck(secret.subarray(0, 4));
    this.#hash = new SipHash(secret.subarray(4, 8));
  }

  /** The longest key has `longestBytes`. The digest of a NULL key has no meaning. */
  async digest(
    { columns, rows }: { readonly columns: readonly KeyColumn[]; readonly rows: number },
    longestBytes = measureKeys(columns, rows).longest.bytes,
  ): Promise<KeyDigests> {
    const values = columns.map((column) => column.values);
    // A key of up to eight bytes fits into a digest of two words.
    const wordsPerKey = columns.reduce((sum, column) => sum + widthBytes(column), 0) <= 8 ? 2 : 4;
    const words = new Uint32Array(rows * wordsPerKey);
    const slice = Math.ceil(Math.min(rowsPerSlice, bytesPerSlice / longestBytes));
    const message = new KeyMessage(values, longestBytes);
    for (let row = 0; row < rows; row++) {
      if (row % slice === slice - 1) await setImmediate();
      const bytes = message.write(row);
      if (wordsPerKey === 2) this.#cipher.encrypt(message.words[0]!, message.words[1]!, words, row * wordsPerKey);
      else this.#hash.hash(message.words, bytes, words, row * wordsPerKey);
    }
    return { wordsPerKey, words };
  }
}

/** Values of no fixed width have Infinity. */
function widthBytes({ field }: KeyColumn): number {
  const { offsetBytes, valueBits = 0 } = columnLayout({ ...field, dictionary: undefined });
  return offsetBytes > 0 ? Number.POSITIVE_INFINITY : bytesOfBits(valueBits);
}

/** Writes one key as the bytes to make a digest of. What lies behind them is zero, or what an earlier key left there. */
class KeyMessage {
  readonly words: Uint32Array;
  readonly #bytes: Uint8Array;
  readonly #values: readonly KeyValues[];

  constructor(values: readonly KeyValues[], longestBytes: number) {
    const lengths = Uint32Array.BYTES_PER_ELEMENT * values.length;
    this.words = new Uint32Array(2 + Math.ceil((lengths + longestBytes) / Uint32Array.BYTES_PER_ELEMENT));
    this.#bytes = new Uint8Array(this.words.buffer);
    this.#values = values;
  }

  /** Returns how many bytes it has. */
  write(row: number): number {
    let at = 0;
    for (const values of this.#values) {
      if (values.form === 'fixed') {
        at = this.#append(values.bytes, row * values.widthBytes, (row + 1) * values.widthBytes, at);
        continue;
      }
      const start = values.starts[row]!;
      const end = values.ends[row]!;
      // Values of a composite key must not run into each other.
      if (this.#values.length > 1) at = this.#appendLength(end - start, at);
      at = this.#append(values.bytes, start, end, at);
    }
    return at;
  }

  #append(source: Uint8Array, start: number, end: number, at: number): number {
    const length = end - start;
    if (length > worthNativeCopy) this.#bytes.set(source.subarray(start, end), at);
    else for (let i = 0; i < length; i++) this.#bytes[at + i] = source[start + i]!;
    return at + length;
  }

  #appendLength(length: number, at: number): number {
    for (let i = 0; i < 4; i++) this.#bytes[at + i] = length >>> (8 * i);
    return at + 4;
  }
}

const worthNativeCopy = 64;

const rounds = 27;

/** The block cipher Speck64/128 is a keyed permutation of 64 bits, so two blocks that differ never become the same. */
export class Speck {
  readonly #roundKeys = new Int32Array(rounds);

  /** `key` has four words. */
  constructor(key: Uint32Array) {
    let [roundKey = 0, first = 0, second = 0, third = 0] = key;
    for (let round = 0; round < rounds; round++) {
      this.#roundKeys[round] = roundKey;
      const mixed = (rotateRight(first, 8) + roundKey) ^ round;
      [first, second, third] = [second, third, mixed];
      roundKey = rotateRight(roundKey, 29) ^ mixed;
    }
  }

  /** Encrypts the block of these two words into two words of `into`, from `at` on. */
  encrypt(low: number, high: number, into: Uint32Array, at: number): void {
    let x = high | 0;
    let y = low | 0;
    for (let round = 0; round < rounds; round++) {
      x = (rotateRight(x, 8) + y) ^ this.#roundKeys[round]!;
      y = rotateRight(y, 29) ^ x;
    }
    into[at] = y;
    into[at + 1] = x;
  }
}

const rotateRight = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));

/** The specification has it as "somepseudorandomlygeneratedbytes". */
const initialState = [
  ...[0x7073_6575, 0x736f_6d65, 0x6e64_6f6d, 0x646f_7261],
  ...[0x6e65_7261, 0x6c79_6765, 0x7974_6573, 0x7465_6462],
];

/** It is SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein): without the key a collision cannot be looked for. */
export class SipHash {
  /** v0 to v3 begin with them, each as its lower and its upper half. */
  readonly #initial: Readonly<Record<`${'v' | 'w'}${0 | 1 | 2 | 3}`, number>>;

  /** `key` has four words. */
  constructor(key: Uint32Array) {
    const mixed = paired(initialState, [...key, ...key]).map(([word, ofKey]) => word ^ ofKey);
    const [v0 = 0, w0 = 0, v1 = 0, w1 = 0, v2 = 0, w2 = 0, v3 = 0, w3 = 0] = mixed;
    this.#initial = { v0, w0, v1: v1 ^ 0xee, w1, v2, w2, v3, w3 };
  }

  /** Hashes the first `bytes` of `message`, little-endian words, into four words of `digest` from `at` on. */
  hash(message: Uint32Array, bytes: number, digest: Uint32Array, at: number): void {
    let { v0, w0, v1, w1, v2, w2, v3, w3 } = this.#initial;
    const last = bytes >>> 3;
    // The whole pairs of words, the pair with the rest and the length, and twice what makes half of the digest.
    for (let step = 0; step < last + 3; step++) {
      let low = 0;
      let high = 0;
      if (step <= last) {
        const left = bytes - 8 * step;
        low = lowest(message, 2 * step, left);
        high = lowest(message, 2 * step + 1, left - 4);
        if (step === last) high |= bytes << 24;
      } else if (step === last + 1) v2 ^= 0xee;
      else v1 ^= 0xdd;
      v3 ^= low;
      w3 ^= high;
      let next = 0;
      for (let round = step > last ? 4 : 2; round > 0; round--) {
        next = (v0 + v1) | 0;
        w0 = (w0 + w1 + carry(v0, v1, next)) | 0;
        v0 = next;
        next = (v1 << 13) | (w1 >>> 19);
        w1 = ((w1 << 13) | (v1 >>> 19)) ^ w0;
        v1 = next ^ v0;
        next = (v2 + v3) | 0;
        w2 = (w2 + w3 + carry(v2, v3, next)) | 0;
        v2 = next;
        next = (v3 << 16) | (w3 >>> 16);
        w3 = ((w3 << 16) | (v3 >>> 16)) ^ w2;
        v3 = next ^ v2;
        // v0 was rotated by 32 above: its halves change their names here.
        next = (w0 + v3) | 0;
        w0 = (v0 + w3 + carry(w0, v3, next)) | 0;
        v0 = next;
        next = (v3 << 21) | (w3 >>> 11);
        w3 = ((w3 << 21) | (v3 >>> 11)) ^ w0;
        v3 = next ^ v0;
        next = (v2 + v1) | 0;
        w2 = (w2 + w1 + carry(v2, v1, next)) | 0;
        v2 = next;
        next = (v1 << 17) | (w1 >>> 15);
        w1 = ((w1 << 17) | (v1 >>> 15)) ^ w2;
        v1 = next ^ v2;
        next = v2;
        v2 = w2;
        w2 = next;
      }
      v0 ^= low;
      w0 ^= high;
      if (step <= last) continue;
      const half = at + 2 * (step - last - 1);
      digest[half] = v0 ^ v1 ^ v2 ^ v3;
      digest[half + 1] = w0 ^ w1 ^ w2 ^ w3;
    }
  }
}

/** Gives the lowest bytes of a word; `bytes` below 1 means none. */
function lowest(message: Uint32Array, word: number, bytes: number): number {
  if (bytes <= 0) return 0;
  const all = message[word]!;
  return bytes >= 4 ? all : all & ((1 << (8 * bytes)) - 1);
}

/** Gives the carry from the lower half of `a + b = sum` into the upper one. */
const carry = (a: number, b: number, sum: number): number => ((a & b) | ((a | b) & ~sum)) >>> 31;
