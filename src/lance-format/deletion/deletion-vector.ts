import { bitmapOf, bitsSet, type ChunkValues, setBitOf } from '../roaring.ts';

const rowsPerChunk = 2 ** 16;
/** A block, 256 rows, is counted in advance; that leaves fewer than these to count for one row. */
const wordsPerBlock = 8;
/** What an object or a typed array takes in Node besides its elements, roughly. */
const overhead = { object: 64, array: 200 } as const;

/**
 * It has the offsets of the deleted rows of one fragment, in chunks of 65,536 rows: nothing, a list while they are few, or a
 * bit for each row. One deletion takes some 0.5 KiB; a million rows, however many are deleted, up to 150 KiB.
 */
export class DeletionVector {
  readonly #rows: number;
  readonly #chunks: (ListedChunk | BitChunk | undefined)[];
  #count = 0;
  /** It counts those that are deleted before each chunk and in all; undefined after a change. */
  #before: Uint32Array | undefined;

  /** No row is deleted yet of a fragment that has `rows`. */
  constructor(rows: number) {
    this.#rows = rows;
    this.#chunks = Array.from({ length: Math.ceil(rows / rowsPerChunk) });
  }

  /** Makes the vector of these offsets, fastest if they ascend. */
  static of(rows: number, offsets: Iterable<number>): DeletionVector {
    const deleted = new DeletionVector(rows);
    for (const offset of offsets) deleted.add(offset);
    return deleted;
  }

  get count(): number {
    return this.#count;
  }

  /** The memory that it takes, about, with what is counted in advance. */
  get bytes(): number {
    const own = overhead.object + overhead.array + this.#chunks.length * 12;
    return this.#chunks.reduce((sum, chunk) => sum + (chunk?.bytes ?? 0), own);
  }

  has(offset: number): boolean {
    return this.#chunks[offset >>> 16]?.has(offset & 0xffff) ?? false;
  }

  /** Answers false if it was deleted already. Throws `RangeError` for what is no row of the fragment. */
  add(offset: number): boolean {
    if (!Number.isInteger(offset) || offset < 0 || offset >= this.#rows) {
      throw new RangeError(`no row ${offset} among ${this.#rows}`);
    }
    if (!this.#chunkFor(offset).add(offset & 0xffff)) return false;
    this.#count += 1;
    this.#before = undefined;
    return true;
  }

  /** The row is deleted. */
  remove(offset: number): void {
    this.#chunks[offset >>> 16]?.remove(offset & 0xffff);
    this.#count -= 1;
    this.#before = undefined;
  }

  /** Counts the rows before this one that are not deleted; `rows` itself will do. After `add`, the chunks are counted again. */
  livingBefore(offset: number): number {
    this.#before ??= this.#countChunks();
    const chunk = offset >>> 16;
    return offset - (this.#before[chunk] ?? 0) - (this.#chunks[chunk]?.countBefore(offset & 0xffff) ?? 0);
  }

  /** Lists the offsets of all other rows, ascending, much faster than by asking for each. */
  living(): Uint32Array<ArrayBuffer> {
    const living = new Uint32Array(this.#rows - this.#count);
    let at = 0;
    for (let first = 0; first < this.#rows; first += rowsPerChunk) {
      const bits = this.#chunks[first >>> 16]?.toBits();
      const end = Math.min(first + rowsPerChunk, this.#rows);
      for (let offset = first; offset < end; offset++) {
        if ((((bits?.[(offset & 0xffff) >> 5] ?? 0) >> (offset & 31)) & 1) === 0) living[at++] = offset;
      }
    }
    return living;
  }

  /** Gives those that `earlier`, of the same fragment, does not have. They ascend. */
  *addedSince(earlier: DeletionVector): Iterable<number> {
    for (const [index, chunk] of this.#chunks.entries()) {
      const known = earlier.#chunks[index]?.toBits();
      for (const [word, bits] of (chunk?.toBits() ?? []).entries()) {
        let added = bits & ~(known?.[word] ?? 0);
        for (; added !== 0; added &= added - 1) {
          yield index * rowsPerChunk + word * 32 + (31 - Math.clz32(added & -added));
        }
      }
    }
  }

  /** Lance keeps such a Roaring bitmap in a file. */
  toBitmap(): Buffer {
    return bitmapOf(this.#chunks.map((chunk) => chunk?.values));
  }

  /** The chunk has room for one more. */
  #chunkFor(offset: number): ListedChunk | BitChunk {
    const index = offset >>> 16;
    const found = this.#chunks[index] ?? new ListedChunk(Math.min(this.#rows - index * rowsPerChunk, rowsPerChunk));
    const chunk = found.isFull ? new BitChunk(found.toBits(), found.count) : found;
    this.#chunks[index] = chunk;
    return chunk;
  }

  #countChunks(): Uint32Array {
    const before = new Uint32Array(this.#chunks.length + 1);
    for (const [index, chunk] of this.#chunks.entries()) before[index + 1] = (before[index] ?? 0) + (chunk?.count ?? 0);
    return before;
  }
}

/** It lists deleted rows in order, while that takes less memory than bits. Files have the same list. */
class ListedChunk {
  readonly #rows: number;
  /** It has room for more. */
  #deleted = new Uint16Array(2);
  #count = 0;

  constructor(rows: number) {
    this.#rows = rows;
  }

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return overhead.object + overhead.array + this.#deleted.byteLength;
  }

  /** They are no copy. */
  get values(): ChunkValues {
    return { list: this.#deleted.subarray(0, this.#count) };
  }

  get isFull(): boolean {
    return this.#count >= this.#rows / 16;
  }

  has(row: number): boolean {
    const at = this.countBefore(row);
    return at < this.#count && this.#deleted[at] === row;
  }

  add(row: number): boolean {
    const at = this.countBefore(row);
    if (at < this.#count && this.#deleted[at] === row) return false;
    if (this.#count === this.#deleted.length) this.#makeRoom();
    this.#deleted.copyWithin(at + 1, at, this.#count);
    this.#deleted[at] = row;
    this.#count += 1;
    return true;
  }

  remove(row: number): void {
    const at = this.countBefore(row);
    this.#deleted.copyWithin(at, at + 1, this.#count);
    this.#count -= 1;
  }

  /** It is a binary search without branches: processors guess half of them wrong, which takes as long as all the rest. */
  countBefore(row: number): number {
    const deleted = this.#deleted;
    let before = 0;
    for (let left = this.#count; left > 0; left >>= 1) {
      const half = (left + 1) >> 1;
      const allBitsIfLess = ((deleted[before + half - 1] ?? 0) - row) >> 31;
      before += half & allBitsIfLess;
    }
    return before;
  }

  toBits(): Uint32Array<ArrayBuffer> {
    const bits = new Uint32Array(Math.ceil(this.#rows / 32));
    for (let at = 0; at < this.#count; at += 1) setBitOf(bits, this.#deleted[at]!);
    return bits;
  }

  #makeRoom(): void {
    const longer = new Uint16Array(this.#count * 2);
    longer.set(this.#deleted);
    this.#deleted = longer;
  }
}

/** It has a bit for each row, set if it is deleted. */
class BitChunk {
  readonly isFull = false;
  count: number;
  readonly #bits: Uint32Array<ArrayBuffer>;
  /** It counts those that are deleted before each block; undefined after a change. */
  #before: Uint32Array | undefined;

  constructor(bits: Uint32Array<ArrayBuffer>, count: number) {
    this.#bits = bits;
    this.count = count;
  }

  get bytes(): number {
    return overhead.object + 2 * overhead.array + this.#bits.byteLength * (1 + 1 / wordsPerBlock);
  }

  /** They are no copy. */
  get values(): ChunkValues {
    return { bits: this.#bits, count: this.count };
  }

  has(row: number): boolean {
    return ((this.#bits[row >> 5] ?? 0) & (1 << (row & 31))) !== 0;
  }

  add(row: number): boolean {
    if (this.has(row)) return false;
    setBitOf(this.#bits, row);
    this.count += 1;
    this.#before = undefined;
    return true;
  }

  remove(row: number): void {
    this.#bits[row >> 5]! &= ~(1 << (row & 31));
    this.count -= 1;
    this.#before = undefined;
  }

  countBefore(row: number): number {
    this.#before ??= this.#countBlocks();
    const bits = this.#bits;
    const word = row >> 5;
    const block = Math.floor(word / wordsPerBlock);
    let count = this.#before[block] ?? 0;
    for (let at = block * wordsPerBlock; at < word; at += 1) count += bitsSet(bits[at] ?? 0);
    return count + bitsSet((bits[word] ?? 0) & ((1 << (row & 31)) - 1));
  }

  /** They are no copy. */
  toBits(): Uint32Array {
    return this.#bits;
  }

  #countBlocks(): Uint32Array {
    const words = this.#bits.length;
    const before = new Uint32Array(Math.floor(words / wordsPerBlock) + 1);
    let count = 0;
    for (let word = 0; word <= words; word += 1) {
      if (word % wordsPerBlock === 0) before[word / wordsPerBlock] = count;
      count += bitsSet(this.#bits[word] ?? 0);
    }
    return before;
  }
}
