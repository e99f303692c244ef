/**
 * Finding a key that occurs twice: a hash of every row, then an open-addressing table over typed arrays. No object is
 * made for a row, which is what keeps 100,000 keys at a few milliseconds.
 */
import { randomInt } from 'node:crypto';
import { type KeyValues, valueBytes } from './key-values.ts';

/** Multipliers of MurmurHash3; the seed is random, so that nobody can prepare keys that collide. */
const multiplyFirst = 0xcc9e2d51;
const multiplySecond = 0x1b873593;

function mix(hash: number, word: number): number {
  const scrambled = Math.imul(word, multiplyFirst);
  const turned = hash ^ Math.imul((scrambled << 15) | (scrambled >>> 17), multiplySecond);
  return (Math.imul((turned << 13) | (turned >>> 19), 5) + 0xe6546b64) | 0;
}

function finish(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}

function mixBytes(hash: number, bytes: Uint8Array, start: number, end: number): number {
  let h = mix(hash, end - start);
  let at = start;
  for (; at + 4 <= end; at += 4) {
    h = mix(h, bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24));
  }
  let rest = 0;
  for (; at < end; at++) rest = (rest << 8) | bytes[at]!;
  return mix(h, rest);
}

interface Rows {
  readonly start: number;
  readonly end: number;
}

function mixFixed(hashes: Int32Array, bytes: Uint8Array, widthBytes: number, { start, end }: Rows): void {
  if (widthBytes % 4 !== 0) {
    for (let row = start; row < end; row++) {
      hashes[row] = mixBytes(hashes[row]!, bytes, row * widthBytes, (row + 1) * widthBytes);
    }
    return;
  }
  const wordsInRow = widthBytes / 4;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, hashes.length * wordsInRow);
  for (let row = start, word = start * wordsInRow; row < end; row++) {
    let h = hashes[row]!;
    for (const next = word + wordsInRow; word < next; word++) h = mix(h, words[word]!);
    hashes[row] = h;
  }
}

/** `hashes` hold the seed. */
function hashRows(hashes: Int32Array, columns: readonly KeyValues[], rows: Rows): void {
  const { start, end } = rows;
  for (const values of columns) {
    if (values.form === 'fixed') mixFixed(hashes, values.bytes, values.widthBytes, rows);
    else {
      for (let row = start; row < end; row++) {
        hashes[row] = mixBytes(hashes[row]!, values.bytes, values.starts[row]!, values.ends[row]!);
      }
    }
  }
  for (let row = start; row < end; row++) hashes[row] = finish(hashes[row]!);
}

function sameBytes(bytes: Uint8Array, a: number, b: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (bytes[a + i] !== bytes[b + i]) return false;
  return true;
}

function sameValue(values: KeyValues, a: number, b: number): boolean {
  if (values.form === 'fixed') {
    return sameBytes(values.bytes, a * values.widthBytes, b * values.widthBytes, values.widthBytes);
  }
  const length = values.ends[a]! - values.starts[a]!;
  if (values.ends[b]! - values.starts[b]! !== length) return false;
  return sameBytes(values.bytes, values.starts[a]!, values.starts[b]!, length);
}

export interface EqualRows {
  readonly row: number;
  readonly firstRow: number;
}

/** About ten milliseconds of work. With a dictionary, many rows of a small body can have long values. */
const rowsAtATime = 1 << 16;
const bytesAtATime = 4 << 20;

/** The row before which work that starts at `start` pauses. */
function sliceEnd(columns: readonly KeyValues[], start: number, rows: number): number {
  const last = Math.min(start + rowsAtATime, rows);
  let bytes = 0;
  let row = start;
  while (row < last && bytes < bytesAtATime) {
    for (const values of columns) bytes += valueBytes(values, row);
    row += 1;
  }
  return row;
}

/**
 * The first row that equals an earlier one in all columns, and that earlier one. Rows that `isNull` are left out. It pauses
 * after every so many rows or bytes, so that the caller can yield the thread.
 */
export function* searchEqualRows(
  columns: readonly KeyValues[],
  rows: number,
  isNull: (row: number) => boolean,
): Generator<void, EqualRows | undefined, void> {
  const hashes = new Int32Array(rows).fill(randomInt(2 ** 32) | 0);
  const mask = 2 ** Math.ceil(Math.log2(2 * rows + 2)) - 1;
  /** Row numbers plus one; 0 is free. */
  const slots = new Int32Array(mask + 1);
  const isSame = (a: number, b: number): boolean =>
    hashes[a] === hashes[b] && columns.every((values) => sameValue(values, a, b));
  for (let start = 0, end = 0; start < rows; start = end) {
    if (start > 0) yield;
    end = sliceEnd(columns, start, rows);
    hashRows(hashes, columns, { start, end });
    for (let row = start; row < end; row++) {
      if (isNull(row)) continue;
      let slot = hashes[row]! & mask;
      for (; slots[slot] !== 0; slot = (slot + 1) & mask) {
        const other = slots[slot]! - 1;
        if (isSame(row, other)) return { row, firstRow: other };
      }
      slots[slot] = row + 1;
    }
  }
  return undefined;
}
