/**
 * Lance's format has sequences of numbers in segments (rowids.proto of the specification): a range, one with holes or with
 * a bit for each number, or a list. A sequence may be damaged, or written to do harm: it takes no more memory than its bytes, and what
 * does not add up is `MalformedFile`.
 */

import { numberArray, numberArrays, rangeSegment, rowIdSequence, segment } from '../messages.ts';
import { type Decoded, decode, encode, MalformedFile } from '../protobuf.ts';
import { bitsSet } from '../roaring.ts';

/** Numbers stand one after the other in a part of a sequence. */
export interface NumberSegment {
  readonly count: number;
  /** The number after the largest one. */
  end(): number;
  at(index: number): number;
}

/** Segments stand one after the other, and have so many numbers together. */
export class Sequence<Part extends Pick<NumberSegment, 'count'>> {
  readonly segments: readonly Part[];
  /** How many numbers come before each segment. */
  readonly #starts: Float64Array;

  constructor(segments: readonly Part[], length: number) {
    this.segments = segments;
    this.#starts = new Float64Array(segments.length);
    let count = 0;
    for (const [index, each] of segments.entries()) {
      this.#starts[index] = count;
      count += each.count;
    }
    if (count !== length) throw new MalformedFile(`a sequence of ${count} for ${length} rows`);
  }

  find(position: number): { readonly segment: Part; readonly index: number } {
    const at = lastAtMost(this.#starts.length, (index) => this.#starts[index] ?? 0, position);
    const segment = this.segments[at];
    const index = position - (this.#starts[at] ?? 0);
    if (segment === undefined || index >= segment.count) throw new MalformedFile('no row at this place');
    return { segment, index };
  }
}

/** Finds the last of some ascending values that is not above this one; -1 where there is none. */
function lastAtMost(count: number, valueAt: (index: number) => number, most: number): number {
  let from = 0;
  let end = count;
  while (from < end) {
    const middle = (from + end) >>> 1;
    if (valueAt(middle) <= most) from = middle + 1;
    else end = middle;
  }
  return from - 1;
}

export const segmentsOf = (encoded: Uint8Array): readonly NumberSegment[] =>
  (decode(rowIdSequence, encoded).segments ?? []).map(readSegment);

export function readSegment(encoded: Uint8Array): NumberSegment {
  const { range, rangeWithHoles, rangeWithBitmap, sortedArray, array } = decode(segment, encoded);
  if (range !== undefined) return readRange(decode(rangeSegment, range));
  if (rangeWithHoles !== undefined) return readRangeWithHoles(decode(rangeSegment, rangeWithHoles));
  if (rangeWithBitmap !== undefined) return readRangeWithBitmap(decode(rangeSegment, rangeWithBitmap));
  const values = sortedArray ?? array;
  if (values === undefined) throw new MalformedFile('a segment of no known kind');
  return readArray(values);
}

function readRange({ start = 0, end = 0 }: Decoded<typeof rangeSegment>): NumberSegment {
  if (end < start) throw new MalformedFile('a range that ends before it begins');
  return { count: end - start, end: () => end, at: (index) => start + index };
}

function readRangeWithHoles({ start = 0, end = 0, rest = Buffer.of() }: Decoded<typeof rangeSegment>): NumberSegment {
  const range = readRange({ start, end });
  const holes = readArray(rest);
  let before = start - 1;
  for (let index = 0; index < holes.count; index += 1) {
    const hole = holes.at(index);
    if (hole <= before || hole >= end) throw new MalformedFile('the holes of a range are not in it, or not in order');
    before = hole;
  }
  const numbersBefore = (hole: number): number => holes.at(hole) - start - hole;
  const at = (index: number) => start + index + lastAtMost(holes.count, numbersBefore, index) + 1;
  return { ...range, count: range.count - holes.count, at };
}

/** The bits are counted in so many bytes at a time. */
const bytesPerCount = 64;

function readRangeWithBitmap({ start = 0, end = 0, rest = Buffer.of() }: Decoded<typeof rangeSegment>): NumberSegment {
  const range = readRange({ start, end });
  if (rest.length !== Math.ceil(range.count / 8)) throw new MalformedFile('a bitmap of another length than its range');
  const countsBefore: number[] = [];
  let count = 0;
  for (const [at, byte] of rest.entries()) {
    if (at % bytesPerCount === 0) countsBefore.push(count);
    count += bitsSet(byte);
  }
  if (range.count % 8 !== 0 && (rest.at(-1) ?? 0) >> (range.count % 8) !== 0)
    throw new MalformedFile('a bitmap with bits past its range');
  const at = (index: number): number => {
    const part = lastAtMost(countsBefore.length, (each) => countsBefore[each] ?? 0, index);
    let left = index - (countsBefore[part] ?? 0);
    for (let position = part * bytesPerCount * 8; ; position += 1) {
      const isThere = (((rest[position >> 3] ?? 0) >> (position % 8)) & 1) === 1;
      if (isThere && left === 0) return start + position;
      if (isThere) left -= 1;
    }
  };
  return { ...range, count, at };
}

function readArray(encoded: Uint8Array): NumberSegment {
  const { ofTwoBytes, ofFourBytes, ofEightBytes } = decode(numberArrays, encoded);
  const { base = 0, offsets = Buffer.of() } = decode(
    numberArray,
    ofTwoBytes ?? ofFourBytes ?? ofEightBytes ?? Buffer.of(),
  );
  const bytesEach = ofTwoBytes !== undefined ? 2 : ofFourBytes !== undefined ? 4 : 8;
  if (offsets.length % bytesEach !== 0) throw new MalformedFile('an array of numbers that ends early');
  const view = new DataView(offsets.buffer, offsets.byteOffset, offsets.length);
  const offsetAt = (position: number): number => {
    if (bytesEach === 2) return view.getUint16(position, true);
    const low = view.getUint32(position, true);
    return bytesEach === 4 ? low : low + view.getUint32(position + 4, true) * 2 ** 32;
  };
  const at = (index: number): number => {
    const value = base + offsetAt(index * bytesEach);
    if (!Number.isSafeInteger(value)) throw new MalformedFile('a number out of range');
    return value;
  };
  const count = offsets.length / bytesEach;
  const end = (): number => {
    let most = 0;
    for (let index = 0; index < count; index += 1) most = Math.max(most, at(index) + 1);
    return most;
  };
  return { count, end, at };
}

/** A range takes fewer bytes than so many numbers of an array. */
const leastInRange = 8;

/** Numbers that follow one another become ranges, and those between them arrays. */
export function encodeNumbers(numbers: readonly number[]): Buffer {
  const segments: Buffer[] = [];
  let listed: number[] = [];
  const endList = () => {
    if (listed.length > 0) segments.push(encode(segment, listOf(listed)));
    listed = [];
  };
  for (let from = 0; from < numbers.length; ) {
    const first = numbers[from] ?? 0;
    let count = 1;
    while (numbers[from + count] === first + count) count += 1;
    if (count < leastInRange) listed.push(...numbers.slice(from, from + count));
    else {
      endList();
      segments.push(rangeOf(first, count));
    }
    from += count;
  }
  endList();
  return encode(rowIdSequence, { segments });
}

export const rangeOf = (start: number, count: number): Buffer =>
  encode(segment, { range: encode(rangeSegment, { start, end: start + count }) });

function listOf(numbers: readonly number[]): Decoded<typeof segment> {
  const isSorted = numbers.every((each, index) => each > (numbers[index - 1] ?? -1));
  return isSorted ? { sortedArray: arrayOf(numbers) } : { array: arrayOf(numbers) };
}

function arrayOf(numbers: readonly number[]): Buffer {
  const base = numbers.reduce((least, each) => Math.min(least, each), Number.POSITIVE_INFINITY);
  const most = numbers.reduce((largest, each) => Math.max(largest, each), 0) - base;
  const offsets = numbers.map((each) => each - base);
  const array = (numbersOfWidth: NodeJS.TypedArray, from: number | undefined) =>
    encode(numberArray, { base: from, offsets: bytesOf(numbersOfWidth) });
  if (most < 2 ** 16) return encode(numberArrays, { ofTwoBytes: array(Uint16Array.from(offsets), base) });
  if (most < 2 ** 32) return encode(numberArrays, { ofFourBytes: array(Uint32Array.from(offsets), base) });
  return encode(numberArrays, { ofEightBytes: array(BigUint64Array.from(numbers, BigInt), undefined) });
}

const bytesOf = ({ buffer, byteOffset, byteLength }: NodeJS.TypedArray): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
