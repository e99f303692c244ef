/**
 * One record batch is made out of rows of several, in two passes: the plan says what every buffer will hold and how long it is,
 * then each is filled in its final place. Whole runs of rows are copied; only offsets and bits are touched one by one.
 */
import { Builder } from 'flatbuffers';
import { paired, pairedInEach } from '../../kernel/paired.ts';
import type { MessageToWrite } from '../format/ipc-file.ts';
import { finishMessage } from '../format/message.ts';
import { bytesOfBits, childrenOf, columnLayout, type Dictionary, type Field } from '../schema/schema.ts';
import { bytesOfPair } from './batch-buffers.ts';
import { bitAt, type ColumnData, countZeros, setBit } from './column-data.ts';

/** They are some rows of a batch, or some values of a column, as runs of adjacent ones. Run `i` ends before `ends[i]`. */
export interface RowRuns {
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly rows: number;
}

/** Each batch gives a slice to a column of the result. */
export type Slices = readonly { readonly data: ColumnData; readonly runs: RowRuns }[];

/** Writes a buffer; its target is exactly as long, begins at a multiple of eight, and holds zeros. */
type Fill = (target: Buffer) => void;
/** Writes one run of values into a buffer from `at` on, in bytes or bits. Answers where the next run begins. */
type WriteRun = (target: Buffer, at: number, data: ColumnData, start: number, end: number) => number;

const sumOf = <Part>(parts: readonly Part[], count: (part: Part) => number): number =>
  parts.reduce((sum, part) => sum + count(part), 0);

/** Gives the same rows of a dictionary-encoded column, with indexes of the dictionary that the result has. */
type Encode = (field: Field, dictionary: Dictionary, slices: Slices) => Slices;

const asTheyAre: Encode = (_field, _dictionary, slices) => slices;

export class BatchPlan {
  readonly #encode: Encode;
  readonly #nodes: (readonly [length: number, nulls: number])[] = [];
  /** Each says where it begins in the body. */
  readonly #buffers: { readonly offset: number; readonly length: number; readonly fill: Fill }[] = [];
  /** Every buffer in the body is padded to eight bytes. */
  #bodyLength = 0;

  constructor(encode = asTheyAre) {
    this.#encode = encode;
  }

  /** Counts the bytes of all buffers, without padding. */
  get bytes(): number {
    return sumOf(this.#buffers, ({ length }) => length);
  }

  /** Columns are to be added in the order of the schema. */
  addColumn(field: Field, read: Slices): void {
    const slices = field.dictionary === undefined ? read : this.#encode(field, field.dictionary, read);
    const length = sumOf(slices, ({ runs }) => runs.rows);
    const { hasBitmap, offsetBytes, valueBits, childValues } = columnLayout(field);
    const nulls = hasBitmap ? countNulls(slices) : length;
    this.#nodes.push([length, nulls]);
    if (!hasBitmap) return;
    this.#buffer(nulls === 0 ? 0 : bytesOfBits(length), inOrder(slices, writeValidity));
    if (offsetBytes > 0) this.#buffer((length + 1) * offsetBytes, fillOffsets(slices, offsetBytes));
    if (valueBits === 0) this.#buffer(countBytes(slices), inOrder(slices, writeVariable));
    else if (valueBits === 1) this.#buffer(bytesOfBits(length), inOrder(slices, writeBits));
    else if (valueBits !== undefined)
      this.#buffer((length * valueBits) / 8, inOrder(slices, writeFixed(valueBits / 8)));
    const children = childrenOf(field);
    if (children.length === 0) return;
    const runs = slices.map((slice) => elementsOf(slice, childValues));
    const ofSlices = slices.map(({ data }) => data.children);
    for (const [child, values] of pairedInEach(children, ofSlices)) {
      this.addColumn(
        child,
        paired(values, runs).map(([data, elements]) => ({ data, runs: elements })),
      );
    }
  }

  message(rows: number): MessageToWrite {
    return {
      head: this.#head(rows),
      bodyLength: this.#bodyLength,
      fill: (body) => {
        for (const { offset, length, fill } of this.#buffers) {
          if (length > 0) fill(body.subarray(offset, offset + length));
        }
      },
    };
  }

  #buffer(length: number, fill: Fill): void {
    this.#buffers.push({ offset: this.#bodyLength, length, fill });
    this.#bodyLength += Math.ceil(length / 8) * 8;
  }

  /** Makes the metadata of the batch, with the prefix. */
  #head(rows: number): Buffer {
    const builder = new Builder();
    const buffers = addPairs(
      builder,
      this.#buffers.map(({ offset, length }) => [offset, length]),
    );
    const nodes = addPairs(builder, this.#nodes);
    builder.startObject(3);
    builder.addFieldInt64(0, BigInt(rows), 0n);
    builder.addFieldOffset(1, nodes, 0);
    builder.addFieldOffset(2, buffers, 0);
    return finishMessage(builder, 'record batch', builder.endObject(), this.#bodyLength);
  }
}

export type NumberPair = readonly [first: number, second: number];

export function addPairs(builder: Builder, pairs: readonly NumberPair[]): number {
  builder.startVector(bytesOfPair, pairs.length, 8);
  for (const [first, second] of pairs.toReversed()) {
    builder.prep(8, bytesOfPair);
    builder.writeInt64(BigInt(second));
    builder.writeInt64(BigInt(first));
  }
  return builder.endVector();
}

function eachRun(slices: Slices, visit: (data: ColumnData, start: number, end: number) => void): void {
  for (const { data, runs } of slices) {
    for (let i = 0; i < runs.starts.length; i++) visit(data, runs.starts[i]!, runs.ends[i]!);
  }
}

function countNulls(slices: Slices): number {
  let nulls = 0;
  eachRun(slices, ({ validity }, start, end) => {
    if (validity !== undefined) nulls += countZeros(validity, start, end);
  });
  return nulls;
}

function countBytes(slices: Slices): number {
  let bytes = 0;
  eachRun(slices, ({ offsets }, start, end) => {
    bytes += offsets[end]! - offsets[start]!;
  });
  return bytes;
}

const inOrder =
  (slices: Slices, write: WriteRun): Fill =>
  (target) => {
    let at = 0;
    for (const { data, runs } of slices) {
      for (let i = 0; i < runs.starts.length; i++) at = write(target, at, data, runs.starts[i]!, runs.ends[i]!);
    }
  };

const writeValidity: WriteRun = (target, at, { validity }, start, end) => {
  if (validity === undefined) setBits(target, at, end - start);
  else copyBits(target, at, validity, start, end);
  return at + end - start;
};

const writeBits: WriteRun = (target, at, { bytes }, start, end) => {
  copyBits(target, at, bytes, start, end);
  return at + end - start;
};

const writeFixed =
  (widthBytes: number): WriteRun =>
  (target, at, { bytes }, start, end) =>
    copyBytes(target, at, bytes, start * widthBytes, end * widthBytes);

const writeVariable: WriteRun = (target, at, { bytes, offsets }, start, end) =>
  copyBytes(target, at, bytes, offsets[start]!, offsets[end]!);

/** Offsets of eight bytes are written as two words of four, of which the upper stays zero. */
const fillOffsets =
  (slices: Slices, offsetBytes: number): Fill =>
  (target) => {
    const words = new Uint32Array(target.buffer, target.byteOffset, target.length / 4);
    const step = offsetBytes / 4;
    let at = 0;
    eachRun(slices, ({ offsets }, start, end) => {
      const shift = words[at]! - offsets[start]!;
      for (let i = start + 1; i <= end; i++) {
        at += step;
        words[at] = offsets[i]! + shift;
      }
    });
  };

/** Below this many bytes a loop is faster than a view and a native copy. */
const worthCopying = 64;

/** Returns where the copied bytes end in `target`. */
function copyBytes(target: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  if (end - start >= worthCopying) target.set(source.subarray(start, end), at);
  else for (let from = start, to = at; from < end; from++, to++) target[to] = source[from]!;
  return at + end - start;
}

/** `target` must hold zeros from `at` on. */
function setBits(target: Uint8Array, at: number, count: number): void {
  const end = at + count;
  let bit = at;
  for (; bit < end && (bit & 7) !== 0; bit++) setBit(target, bit);
  for (; bit + 8 <= end; bit += 8) target[bit >> 3] = 0xff;
  for (; bit < end; bit++) setBit(target, bit);
}

/** Copies the bits from `start` to before `end`. `target` must hold zeros from `at` on. */
function copyBits(target: Uint8Array, at: number, source: Uint8Array, start: number, end: number): void {
  let to = at;
  let from = start;
  const copyOne = (): void => {
    if (bitAt(source, from)) setBit(target, to);
    to++;
    from++;
  };
  while (from < end && (to & 7) !== 0) copyOne();
  const shift = from & 7;
  for (; from + 8 <= end; from += 8, to += 8) {
    const byte = source[from >> 3]!;
    target[to >> 3] = shift === 0 ? byte : (byte >> shift) | (source[(from >> 3) + 1]! << (8 - shift));
  }
  while (from < end) copyOne();
}

function runsBetween(starts: Uint32Array, ends: Uint32Array): RowRuns {
  let rows = 0;
  for (let i = 0; i < starts.length; i++) rows += ends[i]! - starts[i]!;
  return { starts, ends, rows };
}

export const rowsBetween = (start: number, end: number): RowRuns =>
  runsBetween(Uint32Array.of(start), Uint32Array.of(end));

export const allRows = (count: number): RowRuns => rowsBetween(0, count);

/** Answers the rows for which `keep` holds 1. */
export function keptRows(keep: Uint8Array): RowRuns {
  const starts: number[] = [];
  const ends: number[] = [];
  for (let start = keep.indexOf(1); start !== -1; ) {
    const gap = keep.indexOf(0, start);
    const end = gap === -1 ? keep.length : gap;
    starts.push(start);
    ends.push(end);
    start = keep.indexOf(1, end);
  }
  return runsBetween(Uint32Array.from(starts), Uint32Array.from(ends));
}

/** Makes runs of these rows, in this order. */
export function rowsInOrder(rows: Int32Array | readonly number[]): RowRuns {
  const starts: number[] = [];
  const ends: number[] = [];
  for (const row of rows) {
    if (ends.at(-1) === row) ends[ends.length - 1] = row + 1;
    else {
      starts.push(row);
      ends.push(row + 1);
    }
  }
  return runsBetween(Uint32Array.from(starts), Uint32Array.from(ends));
}

/** Answers the values of the children of those rows: `childValues` of each row, or those between its offsets. */
function elementsOf({ data, runs }: Slices[number], childValues: number | undefined): RowRuns {
  if (childValues === 1) return runs;
  const first = (row: number): number => (childValues === undefined ? data.offsets[row]! : row * childValues);
  return runsBetween(runs.starts.map(first), runs.ends.map(first));
}

/** The rows of one batch follow one another in the result; undefined are those that are in none. */
interface PlacedRuns<Batch> {
  readonly batch: Batch | undefined;
  readonly runs: RowRuns;
}

/** It knows where the rows of a result are, in its order. */
export class RowPlaces<Batch = number> {
  readonly placed: readonly PlacedRuns<Batch>[];
  readonly rows: number;

  /** A place names the batch of a row, and the row in it. It is undefined for a row that is in no batch. */
  constructor(places: readonly (readonly [batch: Batch, row: number] | undefined)[]) {
    this.rows = places.length;
    const placed: PlacedRuns<Batch>[] = [];
    for (let from = 0, end = 0; from < places.length; from = end) {
      const batch = places[from]?.[0];
      const rows: number[] = [];
      for (; end < places.length && places[end]?.[0] === batch; end++) rows.push(places[end]?.[1] ?? 0);
      placed.push({ batch, runs: rowsInOrder(rows) });
    }
    this.placed = placed;
  }
}
