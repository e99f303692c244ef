/** What the strategies have in common: their result, and that an upsert of whole rows leaves one row of each key. */
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { RowAddressSql } from '../../engine/port/row-address.ts';
import type { MergeTotals, Shadow } from '../../engine/port/shadow.ts';
import type { CountsSource } from '../../telemetry/metrics.ts';
import type { Batch, Head } from '../batch.ts';
import { addressesByKey, soughtKeys } from '../key-index/key-lookup.ts';

/** What each merge of a batch did (P4). */
export interface Counted {
  readonly each: readonly MergeTotals[];
  /** undefined for a merge alone, which the engine counts. */
  readonly by: CountsSource | undefined;
}

/** A batch that is merged, and not yet known to be durable. */
export interface Committed {
  /** The version it made, or the head's if it changed no row. */
  readonly version: number;
  /** Counts, and notes in the key index where the rows are. The committer calls it once, while it holds the lock. */
  readonly count: () => Promise<Counted>;
  /** Whether the commit was a direct one, by the addresses of the key index. */
  readonly isDirect: boolean;
  /** As `Dataset.gainsByIndex`; false also where the merge was not to use any. */
  readonly gainsByIndex: boolean;
  /** The commit changed rows of at most so many fragments. */
  readonly mostFragments: number;
  /** How many rows were deleted because another program had doubled their keys. */
  readonly surplusRows: number;
}

/** No version is made of a batch that changes no row. */
export const unchanged = ({ requests }: Batch, { version }: Head): Committed => ({
  version,
  count: async () => ({
    each: requests.map(() => ({ numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 })),
    by: undefined,
  }),
  isDirect: false,
  gainsByIndex: false,
  mostFragments: 0,
  surplusRows: 0,
});

type Rows = Pick<Shadow, 'select' | 'take'> & {
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

/** Upserts of whole rows do; where columns stay as they are, what a row becomes depends on the row. */
export const leavesOneRow = (batch: Batch, tableColumns: number): boolean =>
  batch.isUpsert && batch.first.chunk.schema.fields.length === tableColumns;

const newKeys = (batch: Batch, { numInsertedRows }: MergeTotals): number => numInsertedRows - batch.numNullRows;
