/**
 * One record batch out of rows of several, in two passes: the plan says what every buffer will hold and how long it is,
 * then each is filled in its final place. Whole runs of rows are copied; only offsets and bits are touched one by one.
 */

import type { MessageToWrite } from '../format/write-file.ts';
import type { Field } from '../schema/schema.ts';
import type { BatchNode } from './batch-buffers.ts';
import { copyBits, countZeros, setBits } from './bitmap.ts';
import type { ColumnData } from './column-data.ts';
import { columnLayout } from './column-layout.ts';
import { type BufferRange, recordBatchMessage } from './record-batch-message.ts';
import { elementsOf, elementsOfFixed, type RowRuns } from './row-runs.ts';

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
