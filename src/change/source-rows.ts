import { canConcat, concatRows, joinBatches } from '../arrow/column/concat-rows.ts';
import { fitRows, nullBytesPerRow } from '../arrow/column/fitted-rows.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { TableColumns } from '../engine/port/column-view.ts';
import { LancegateError } from '../kernel/errors.ts';

/** No memory was reserved for columns that come meanwhile. */
const mostSurplusBytes = 16 * 2 ** 20;

/** Rows of a source as they were sent, to be laid out as the columns that a step finds. */
export interface SourceRows {
  readonly chunk: IpcChunk;
  /** What each row may take in columns that it leaves out. */
  readonly nullBytesPerRow: number;
}

/** The rows fit the columns. Of malformed values the engine might store a part. */
export function fittedRows({ chunk, nullBytesPerRow: reserved }: SourceRows, { schema, file }: TableColumns): IpcChunk {
  const more = nullBytesPerRow(chunk.schema, schema) - reserved;
  if (more * chunk.rows > mostSurplusBytes)
    throw new LancegateError(
      'BodyTooLarge',
      'its rows take too much memory with NULL in the columns that operations before it add: send fewer rows at a time',
    );
  const fitted = joinBatches(fitRows(chunk, schema, file));
  return canConcat([fitted]) ? concatRows([{ chunk: fitted, keep: undefined }]) : fitted;
}

/** Whether columns that another source has changed may be why a source does not fit. Nothing is written. */
export const isUnfit = (error: unknown): boolean =>
  error instanceof LancegateError &&
  (error.kind === 'TableSchemaValidationError' || error.kind === 'ConcurrentModification');
