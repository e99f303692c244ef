import { type RecordBatch, RecordBatchReader, type Schema } from 'apache-arrow';
import { CliError } from './command.ts';

interface ArrowRows {
  readonly schema: Schema;
  readonly batches: Iterable<RecordBatch>;
}

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
