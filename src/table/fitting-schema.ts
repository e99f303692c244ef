import { fitRows, nullBytesPerRow } from '../arrow/column/fitted-rows.ts';
import { isFitted } from '../arrow/schema/fitted-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { BranchHead, Snapshot } from '../engine/port/dataset.ts';
import type { TableColumns } from '../engine/port/table-columns.ts';
import { LancegateError } from '../kernel/errors.ts';

/**
 * The schema of the table, which a source fits: `requireFit` throws where it does not. It is taken as last seen; before it leads to a
 * refusal it is looked up again, since a writer outside this service may have changed it.
 */
export async function fittingSchema(
  dataset: Snapshot & BranchHead,
  requireFit: (table: Schema) => void,
): Promise<TableColumns> {
  const read = async (): Promise<TableColumns> => {
    const columns = await dataset.columns();
    requireFit(columns.schema);
    return columns;
  };
  return read().catch(async () => {
    await dataset.refresh();
    return read();
  });
}

/** All rows of a source that fits the table, laid out as the table's. Memory is reserved for NULLs that are added to them, too. */
export async function wholeFitting(source: ArrowSource, { schema, file }: TableColumns): Promise<IpcChunk> {
  const chunk = await source.whole(nullBytesPerRow(await source.schema(), schema));
  return fitRows(chunk, schema, file);
}

/** That these rows fit the table with the schema `checked`, and with any other that `requireFit` lets pass. */
export const fitOf = (
  { schema: source, rows }: Pick<IpcChunk, 'schema' | 'rows'>,
  checked: Schema,
  requireFit: (source: Schema, table: Schema) => void,
) => ({
  checked,
  check: (now: Schema): void => {
    requireFit(source, now);
    if (!isFitted(source, now)) throw columnsAdded();
    const more = nullBytesPerRow(source, now) - nullBytesPerRow(source, checked);
    // The memory for NULLs in columns that came meanwhile is not reserved: many of them have to be sent again.
    if (more * rows > 16 * 2 ** 20) throw columnsAdded();
  },
});

const columnsAdded = (): LancegateError =>
  new LancegateError(
    'ConcurrentModification',
    'columns were added to the table while the rows waited; nothing was written',
    { retryAfterSeconds: 1 },
  );
