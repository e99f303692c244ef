import { type RecordBatch, RecordBatchReader, type Schema } from 'apache-arrow';
import { CliError } from '../cli-error.ts';
import type { EncodedRows } from './encode.ts';

const fileMagic = Buffer.from('ARROW1');
const streamMarker = Buffer.from([255, 255, 255, 255]);

export const isArrow = (input: Buffer): boolean =>
  input.subarray(0, fileMagic.length).equals(fileMagic) || input.subarray(0, streamMarker.length).equals(streamMarker);

/** An Arrow IPC file or stream, its batches and types as they are. */
export function readArrow(input: Buffer): EncodedRows {
  const reader = translate(() => RecordBatchReader.from(input).open());
  return { schema: reader.schema, batches: translatedBatches(reader[Symbol.iterator]()) };
}

function* translatedBatches(batches: Iterator<RecordBatch>): Iterable<RecordBatch> {
  for (let next = translate(() => batches.next()); !next.done; next = translate(() => batches.next())) {
    yield next.value;
  }
}

/** The columns in the order of `names`. */
export function selectColumns({ schema, batches }: EncodedRows, names: readonly string[]): EncodedRows {
  const known = schema.fields.map((field) => field.name);
  const indices = names.map((name) => known.indexOf(name));
  // By index, because `RecordBatch.select` by name leaves holes among the columns (apache-arrow 18.1).
  return { schema: schema.selectAt(indices) as Schema, batches: selectEach(batches, indices) };
}

export function limitRows({ schema, batches }: EncodedRows, limit: number): EncodedRows {
  return { schema, batches: firstRows(batches, limit) };
}

function* selectEach(batches: Iterable<RecordBatch>, indices: number[]): Iterable<RecordBatch> {
  for (const batch of batches) yield batch.selectAt(indices) as RecordBatch;
}

function* firstRows(batches: Iterable<RecordBatch>, limit: number): Iterable<RecordBatch> {
  let left = limit;
  for (const batch of batches) {
    if (left === 0) return;
    const part = batch.slice(0, Math.min(left, batch.numRows));
    left -= part.numRows;
    yield part;
  }
}

function translate<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CliError(`the Arrow data cannot be read: ${reason}`, { cause: error });
  }
}
