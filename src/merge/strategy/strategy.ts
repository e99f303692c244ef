/** What the strategies have in common: an upsert of whole rows leaves one row of each key. */
import { readColumns, wordsOf } from '../../arrow/column/column-data.ts';
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import { chunkOfFile } from '../../arrow/stream/ipc-chunks.ts';
import type { RowReads } from '../../engine/port/column-view.ts';
import type { RowAddressSql } from '../../engine/port/row-address.ts';
import type { MergeTotals } from '../../engine/port/shadow.ts';
import type { Properties } from '../../kernel/ids.ts';
import type { RowAddress } from '../../keys/address-remap.ts';
import type { Batch } from '../batch.ts';
import { addressesByKey, soughtKeys } from '../key-index/key-lookup.ts';

export type Rows = Pick<RowReads, 'select'> & {
  deleteRows(addresses: readonly RowAddressSql[]): Promise<unknown>;
};

/**
 * Leaves one row of each key of the batch after an upsert of whole rows (P2), and returns how many rows it deleted. The engine
 * updates every row of a key that another program has doubled: its totals say whether there was one. `on` are the key columns
 * where `rows` has them elsewhere than the table.
 */
export async function deleteSurplus(
  rows: Rows,
  batch: Batch,
  tableColumns: number,
  totals: MergeTotals,
  on?: readonly FieldPath[],
): Promise<number> {
  if (!leavesOneRow(batch, tableColumns) || totals.numUpdatedRows <= batch.numKeys - newKeys(batch, totals)) return 0;
  const sought = soughtKeys(batch);
  const addresses = await addressesByKey(rows, on === undefined ? sought : { ...sought, on, where: undefined });
  const surplus = [...addresses.values()].flatMap((each) => each.slice(1));
  if (surplus.length > 0) await rows.deleteRows(surplus);
  return surplus.length;
}

/** The only column of a file: row ids, or addresses. */
export const wordsIn = (file: IpcFile): readonly bigint[] =>
  readColumns(chunkOfFile(file)).flatMap(({ rows, columns: [words] }) =>
    words === undefined ? [] : [...wordsOf(words, rows)],
  );

/** Upserts of whole rows do; where columns stay as they are, what a row becomes depends on the row. */
export const leavesOneRow = (batch: Batch, tableColumns: number): boolean =>
  batch.isUpsert && batch.first.chunk.schema.fields.length === tableColumns;

const newKeys = (batch: Batch, { numInsertedRows }: MergeTotals): number => numInsertedRows - batch.numNullRows;

/** Rows that marked ones of the source delete, and what the version is to keep of that. */
export interface RowsToDelete {
  readonly rows: readonly RowAddress[];
  /** As `ReplaceOptions.settings`. */
  readonly settings: Properties | undefined;
}

/** The first merge has deleted these besides. */
export const withDeleted = ([first, ...others]: readonly MergeTotals[], rows: number): readonly MergeTotals[] =>
  first === undefined ? [] : [{ ...first, numDeletedRows: first.numDeletedRows + rows }, ...others];
