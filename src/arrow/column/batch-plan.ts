/**
 * One record batch out of rows of several, in two passes: the plan says what every buffer will hold and how long it is,
 * then each is filled in its final place. Whole runs of rows are copied; only offsets and bits are touched one by one.
 */

import { Builder } from 'flatbuffers';
import type { MessageToWrite } from '../format/ipc-file.ts';
import { finishMessage } from '../format/message.ts';
import type { Field } from '../schema/schema.ts';
import type { BatchNode } from './batch-buffers.ts';
import { type ColumnData, columnLayout, copyBits, countZeros, setBits } from './column-data.ts';

/** What one batch gives to a column of the result. */
export interface ColumnSlice {
  readonly data: ColumnData;
  readonly runs: RowRuns;
}

type Slices = readonly ColumnSlice[];
/** Writes a buffer; its target is exactly as long, begins at a multiple of eight, and holds zeros. */
type Fill = (target: Buffer) => void;

const padded = (bytes: number): number => Math.ceil(bytes / 8) * 8;
const bitmapBytes = (values: number): number => Math.ceil(values / 8);
const sumOf = (slices: Slices, count: (slice: ColumnSlice) => number): number =>
  slices.reduce((sum, slice) => sum + count(slice), 0);

export class BatchPlan {
  readonly nodes: BatchNode[] = [];
  readonly buffers: BufferRange[] = [];
  readonly #fills: Fill[] = [];
  /** The length of the body. Every buffer in it is padded to eight bytes. */
  bodyLength = 0;

  /** Columns are to be added in the order of the schema. */
  addColumn(field: Field, slices: Slices): void {
    const length = sumOf(slices, ({ runs }) => runs.rows);
    if (field.type.kind === 'null') {
      this.nodes.push({ length, nulls: length });
      return;
    }
    const nulls = sumOf(slices, countNulls);
    this.nodes.push({ length, nulls });
    this.#buffer(nulls === 0 ? 0 : bitmapBytes(length), fillValidity(slices));
    this.#addValues(field, slices, length);
  }

  /** The batch as a message. */
  message(rows: number): MessageToWrite {
    return {
      head: recordBatchMessage(rows, this),
      bodyLength: this.bodyLength,
      fill: (body) => {
        for (const [i, { offset, length }] of this.buffers.entries()) {
          if (length > 0) this.#fills[i]!(body.subarray(offset, offset + length));
        }
      },
    };
  }

  #addValues(field: Field, slices: Slices, length: number): void {
    const layout = columnLayout(field);
    switch (layout.form) {
      case 'empty':
        break;
      case 'bits':
        this.#buffer(bitmapBytes(length), fillBits(slices));
        break;
      case 'fixed':
        this.#buffer(length * layout.widthBytes, fillFixed(slices, layout.widthBytes));
        break;
      case 'variable':
        this.#buffer((length + 1) * layout.offsetBytes, fillOffsets(slices, layout.offsetBytes));
        this.#buffer(sumOf(slices, countBytes), fillVariable(slices));
        break;
      case 'list':
        this.#buffer((length + 1) * layout.offsetBytes, fillOffsets(slices, layout.offsetBytes));
        this.#addChildren(field, slices, ({ data, runs }) => elementsOf(runs, data.offsets));
        break;
      case 'fixed_size_list':
        this.#addChildren(field, slices, ({ runs }) => elementsOfFixed(runs, layout.listSize));
        break;
      case 'struct':
        this.#addChildren(field, slices, ({ runs }) => runs);
        break;
    }
  }

  #addChildren(field: Field, slices: Slices, runsOf: (slice: ColumnSlice) => RowRuns): void {
    const runs = slices.map(runsOf);
    for (const [i, child] of field.children.entries()) {
      const ofChild = slices.map(({ data }, slice) => ({ data: data.children[i]!, runs: runs[slice]! }));
      this.addColumn(child, ofChild);
    }
  }

  #buffer(length: number, fill: Fill): void {
    this.buffers.push({ offset: this.bodyLength, length });
    this.#fills.push(fill);
    this.bodyLength += padded(length);
  }
}

function eachRun(slices: Slices, visit: (data: ColumnData, start: number, end: number) => void): void {
  for (const { data, runs } of slices) {
    for (let i = 0; i < runs.starts.length; i++) visit(data, runs.starts[i]!, runs.ends[i]!);
  }
}

function countNulls(slice: ColumnSlice): number {
  let nulls = 0;
  eachRun([slice], ({ validity }, start, end) => {
    if (validity !== undefined) nulls += countZeros(validity, start, end);
  });
  return nulls;
}

function countBytes(slice: ColumnSlice): number {
  let bytes = 0;
  eachRun([slice], ({ offsets }, start, end) => {
    bytes += offsets[end]! - offsets[start]!;
  });
  return bytes;
}

const fillValidity =
  (slices: Slices): Fill =>
  (target) => {
    let at = 0;
    eachRun(slices, ({ validity }, start, end) => {
      if (validity === undefined) setBits(target, at, end - start);
      else copyBits(target, at, validity, start, end);
      at += end - start;
    });
  };

const fillBits =
  (slices: Slices): Fill =>
  (target) => {
    let at = 0;
    eachRun(slices, ({ bytes }, start, end) => {
      copyBits(target, at, bytes, start, end);
      at += end - start;
    });
  };

const fillFixed =
  (slices: Slices, widthBytes: number): Fill =>
  (target) => {
    let at = 0;
    eachRun(slices, ({ bytes }, start, end) => {
      at = copyBytes(target, at, bytes, start * widthBytes, end * widthBytes);
    });
  };

const fillVariable =
  (slices: Slices): Fill =>
  (target) => {
    let at = 0;
    eachRun(slices, ({ bytes, offsets }, start, end) => {
      at = copyBytes(target, at, bytes, offsets[start]!, offsets[end]!);
    });
  };

/** Offsets of eight bytes are written as two words of four, of which the upper stays zero. */
const fillOffsets =
  (slices: Slices, offsetBytes: 4 | 8): Fill =>
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

/** Some rows of a batch, or some values of a column: runs of neighbours, in order. Run `i` ends before `ends[i]`. */
export interface RowRuns {
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  /** How many rows there are in all runs. */
  readonly rows: number;
}

function runsBetween(starts: Uint32Array, ends: Uint32Array): RowRuns {
  let rows = 0;
  for (let i = 0; i < starts.length; i++) rows += ends[i]! - starts[i]!;
  return { starts, ends, rows };
}

export const allRows = (count: number): RowRuns => runsBetween(Uint32Array.of(0), Uint32Array.of(count));

/** The rows for which `keep` holds 1. */
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

/** The elements of those lists whose elements `offsets` delimits. */
export const elementsOf = ({ starts, ends }: RowRuns, offsets: Uint32Array): RowRuns =>
  runsBetween(
    starts.map((row) => offsets[row]!),
    ends.map((row) => offsets[row]!),
  );

/** The elements of lists that all have `listSize`. */
export const elementsOfFixed = ({ starts, ends }: RowRuns, listSize: number): RowRuns =>
  runsBetween(
    starts.map((row) => row * listSize),
    ends.map((row) => row * listSize),
  );

export interface BufferRange {
  /** From the start of the body, in bytes. */
  readonly offset: number;
  readonly length: number;
}

export interface BatchShape {
  readonly nodes: readonly BatchNode[];
  readonly buffers: readonly BufferRange[];
  readonly bodyLength: number;
}

/** The metadata of an uncompressed record batch, with its prefix. */
export function recordBatchMessage(rows: number, { nodes, buffers, bodyLength }: BatchShape): Buffer {
  const builder = new Builder(bytesOfPair * (nodes.length + buffers.length) + overheadBytes);
  const bufferPairs = addPairs(
    builder,
    buffers.map(({ offset, length }) => [offset, length]),
  );
  const nodePairs = addPairs(
    builder,
    nodes.map(({ length, nulls }) => [length, nulls]),
  );
  builder.startObject(3);
  builder.addFieldInt64(0, BigInt(rows), 0n);
  builder.addFieldOffset(1, nodePairs, 0);
  builder.addFieldOffset(2, bufferPairs, 0);
  return finishMessage(builder, 'batch', builder.endObject(), bodyLength);
}

const bytesOfPair = 16;
/** At least the tables: the builder then never grows. */
const overheadBytes = 128;

function addPairs(builder: Builder, pairs: readonly (readonly [number, number])[]): number {
  builder.startVector(bytesOfPair, pairs.length, 8);
  for (const [first, second] of pairs.toReversed()) {
    builder.prep(8, bytesOfPair);
    builder.writeInt64(BigInt(second));
    builder.writeInt64(BigInt(first));
  }
  return builder.endVector();
}
