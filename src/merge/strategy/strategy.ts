import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { MergeCounts } from '../../engine/port/merge-spec.ts';
import type { RowAddressSql } from '../../engine/port/row-address.ts';
import type { MergeTotals, Shadow } from '../../engine/port/shadow.ts';
import type { CountsSource } from '../../telemetry/metrics.ts';
import type { Batch, Head } from '../batch.ts';
import { addressesByKey, soughtKeys } from '../key-index/key-lookup.ts';

/** What each merge of a batch did (P4). */
export interface Counted {
  readonly each: readonly MergeCounts[];
  /** undefined for a merge alone, which the engine counts. */
  readonly by: CountsSource | undefined;
}

/** A batch that is merged, and not yet known to be durable. */
export interface Committed {
  /** The version it made, or the head's if it changed no row. */
  readonly version: number;
  /** To be called once, while the lock is held. */
  readonly count: () => Promise<Counted>;
  /** The key index said where the rows are, so the engine looked for none. */
  readonly isByAddress: boolean;
  /** As `Dataset.gainsByIndex`; false also where the merge was not to use any. */
  readonly gainsByIndex: boolean;
  /** So many fragments had a part in what it took, at the most. */
  readonly mostFragments: number;
  /** Of keys that another program had doubled: those that were deleted. */
  readonly surplusRows: number;
}

/**
 * `does not apply`: another strategy is for such a batch. `overtaken`: another program has committed since the head was
 * looked up. Nothing is written in either case.
 */
export type Outcome = Committed | 'does not apply' | 'overtaken';

/** One way to merge a batch into a branch, in one version or, if it fails, in none. */
export interface Strategy {
  /** Throws what fails the batch: `FaultyPart` says which of its merges did. */
  commit(batch: Batch, head: Head): Promise<Outcome>;
}

/** No version is made of a batch that changes no row. */
export const unchanged = ({ requests }: Batch, { version }: Head): Committed => {
  const nothing = { version, numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0, numAttempts: 1 };
  return {
    version,
    count: async () => ({ each: requests.map(() => nothing), by: undefined }),
    isByAddress: false,
    gainsByIndex: false,
    mostFragments: 0,
    surplusRows: 0,
  };
};

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

/** Upserts of whole rows do; what a row becomes under a filter, or where columns stay as they are, depends on the row. */
export const leavesOneRow = (batch: Batch, tableColumns: number): boolean => {
  const { spec, chunk } = batch.first;
  const isUpsert = spec.whenMatchedUpdateAll === true && spec.whenNotMatchedInsertAll;
  return isUpsert && chunk.schema.fields.length === tableColumns;
};

const newKeys = (batch: Batch, { numInsertedRows }: MergeTotals): number => numInsertedRows - batch.numNullRows;
