import { type RecordBatch, RecordBatchReader, type Schema } from 'apache-arrow';
import { magicAtEnd } from '../arrow/format/message.ts';
import { CliError } from './command.ts';

interface ArrowRows {
  readonly schema: Schema;
  readonly batches: Iterable<RecordBatch>;
}

const streamMarker = Buffer.from([255, 255, 255, 255]);

export const isArrow = (input: Buffer): boolean =>
  input.subarray(0, magicAtEnd.length).equals(magicAtEnd) ||
  input.subarray(0, streamMarker.length).equals(streamMarker);

/** An Arrow IPC file or stream, its batches and types as they are. */
export function readArrow(input: Buffer): ArrowRows {
  const reader = translate(() => RecordBatchReader.from(input).open());
  return { schema: reader.schema, batches: translatedBatches(reader[Symbol.iterator]()) };
}

function* translatedBatches(batches: Iterator<RecordBatch>): Iterable<RecordBatch> {
  for (let next = translate(() => batches.next()); !next.done; next = translate(() => batches.next())) {
    yield next.value;
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
