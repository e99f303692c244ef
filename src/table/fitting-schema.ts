import { nullBytesPerRow } from '../arrow/column/typed-nulls.ts';
import type { Schema } from '../arrow/schema/schema.ts';
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

/** The memory for NULLs in columns that came meanwhile is not reserved: many of them have to be sent again. */
const mostNullBytes = 16 * 2 ** 20;

/** Of `rows` rows of a `source` that was `checked` against an earlier schema than that of `now`. */
export function requireFewNewNulls(source: Schema, rows: number, checked: Schema, now: Schema): void {
  const more = nullBytesPerRow(source, now) - nullBytesPerRow(source, checked);
  if (more * rows <= mostNullBytes) return;
  throw new LancegateError(
    'ConcurrentModification',
    'columns were added to the table while the rows waited; nothing was written',
    { retryAfterSeconds: 1 },
  );
}
