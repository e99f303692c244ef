import { setImmediate } from 'node:timers/promises';
import { columnLayout } from '../arrow/column/column-data.ts';
import type { Keys } from './key-columns.ts';
import { type KeyValues, measureKeys } from './key-values.ts';
import type { KeyColumn } from './read-key-column.ts';
import { SipHash } from './siphash.ts';
import { Speck } from './speck.ts';

/**
 * The digests of keys. That of key `i` is `wordsPerKey` words of 32 bits, from `i * wordsPerKey` on. All keys of the same columns
 * of a table have equally many words.
 */
export interface KeyDigests {
  readonly wordsPerKey: 2 | 4;
  readonly words: Uint32Array;
}

/** The digest of key `index`, for where keys are few. */
export const textOfDigest = ({ words, wordsPerKey }: KeyDigests, index: number): string =>
  words.subarray(index * wordsPerKey, (index + 1) * wordsPerKey).join(' ');

const secretWords = 8;
/** A key of so many bytes fits into a digest of two words. */
const narrowBytes = 8;
/** About ten milliseconds of work, after which others have the thread (P10). */
const rowsPerSlice = 1 << 15;
const bytesPerSlice = 2 << 20;

/**
 * Makes digests: equal for equal keys, in every source and for the rows of the table.
 *
 * A key of up to eight bytes is encrypted, so that two digests are equal only where the keys are. Any other key is hashed to 128
 * bits: of 10^9 keys two have the same digest once in 10^20 tables. A client that does not know the secret can neither look for
 * two such keys nor choose keys that meet in a hash table (P10). The former takes 40 ns a key, the latter 300 and 4 a byte.
 */
export class KeyHasher {
  readonly #cipher: Speck;
  readonly #hash: SipHash;

  /** `secret` is eight random words. */
  constructor(secret: Uint32Array) {
    if (secret.length < secretWords) throw new Error(`a secret of ${secret.length} words is too short`);
    this.#cipher = new Speck(secret.subarray(0, 4));
    this.#hash = new SipHash(secret.subarray(4, 8));
  }

  /** A row whose key is NULL has a digest without a meaning. */
  async digest({ columns, rows }: Pick<Keys, 'columns' | 'rows'>): Promise<KeyDigests> {
    const values = columns.map((column) => column.values);
    const wordsPerKey = columns.reduce((sum, column) => sum + widthBytes(column), 0) <= narrowBytes ? 2 : 4;
    const words = new Uint32Array(rows * wordsPerKey);
    const longestBytes = measureKeys(values, rows).longest.bytes;
    const slice = Math.ceil(Math.min(rowsPerSlice, bytesPerSlice / longestBytes));
    const message = new Message(values, longestBytes);
    for (let row = 0; row < rows; row++) {
      if (row % slice === slice - 1) await setImmediate();
      const bytes = message.write(row);
      if (wordsPerKey === 2) this.#cipher.encrypt(message.words[0]!, message.words[1]!, words, row * wordsPerKey);
      else this.#hash.hash(message.words, bytes, words, row * wordsPerKey);
    }
    return { wordsPerKey, words };
  }
}

/** Infinity for values of no fixed width. */
function widthBytes({ field }: KeyColumn): number {
  const layout = columnLayout({ ...field, dictionary: undefined });
  if (layout.form === 'bits') return 1;
  return layout.form === 'fixed' ? layout.widthBytes : Number.POSITIVE_INFINITY;
}

/** One key as the bytes to make a digest of. What lies behind them is zero, or what an earlier key left there. */
class Message {
  readonly words: Uint32Array;
  readonly #bytes: Uint8Array;
  readonly #values: readonly KeyValues[];

  constructor(values: readonly KeyValues[], longestBytes: number) {
    const lengths = Uint32Array.BYTES_PER_ELEMENT * values.length;
    this.words = new Uint32Array(2 + Math.ceil((lengths + longestBytes) / Uint32Array.BYTES_PER_ELEMENT));
    this.#bytes = new Uint8Array(this.words.buffer);
    this.#values = values;
  }

  /** Answers how many bytes it has. */
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
