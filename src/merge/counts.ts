/**
 * What each merge of a batch did, as if they had been applied one after the other (P4). It follows from how many rows each
 * key had before: the key index knows, or the engine's totals leave no doubt, or the rows that the commit removed or added
 * show it, or else the version before is searched.
 */
import type { History, Snapshot } from '../engine/port/dataset.ts';
import type { Datasets, OpenRequest } from '../engine/port/engine.ts';
import type { RowAddressSql } from '../engine/port/row-address.ts';
import type { MergeTotals } from '../engine/port/shadow.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { CountsSource } from '../telemetry/metrics.ts';
import type { Batch } from './batch.ts';
import { countSoughtRows, soughtKeys } from './key-index/key-lookup.ts';

/** How many rows had a key of the batch before it: none or one, or several where another program brought the key twice. */
type RowsBefore = (key: number) => number;

export interface CountedRows {
  readonly by: CountsSource;
  readonly rowsBefore: RowsBefore;
}

/**
 * What each merge of a batch by keys did. `leavesOneRow`: of several rows with one key one is left, and the others count as
 * deleted.
 */
export const countsOfEach = (batch: Batch, rowsBefore: RowsBefore, leavesOneRow: boolean): readonly MergeTotals[] =>
  batch.requests.map((_, request) => countsOf(batch, request, rowsBefore, leavesOneRow));

function countsOf(batch: Batch, request: number, rowsBefore: RowsBefore, leavesOneRow: boolean): MergeTotals {
  const { updates, inserts } = batch;
  const counts = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };
  const mostLeft = leavesOneRow ? 1 : Number.POSITIVE_INFINITY;
  for (const key of batch.keyOf(request)) {
    const isNull = key === -1;
    const isLater = !isNull && batch.hasEarlier(key, request);
    const rows = isNull ? 0 : rowsBefore(key);
    const surplus = Math.max(0, rows - mostLeft);
    const found = rows === 0 && isLater && inserts ? 1 : rows - surplus;
    if (found === 0 && inserts) counts.numInsertedRows += 1;
    if (updates) counts.numUpdatedRows += found;
    if (!isLater) counts.numDeletedRows += surplus;
  }
  return counts;
}

/** The same answer for every key, where the engine's totals leave no doubt; undefined where only the keys can tell. */
export function rowsBeforeByTotals(batch: Batch, totals: MergeTotals): CountedRows | undefined {
  const all = (rows: 0 | 1): CountedRows => ({ by: 'totals', rowsBefore: () => rows });
  if (!batch.inserts) return totals.numUpdatedRows === 0 ? all(0) : undefined;
  const insertedKeys = totals.numInsertedRows - batch.numNullRows;
  if (insertedKeys === batch.numKeys) return all(0);
  if (insertedKeys === 0 && (!batch.updates || totals.numUpdatedRows === batch.numKeys)) return all(1);
  return undefined;
}

interface RowsOfCommit {
  readonly engine: Datasets;
  /** The dataset is at the version that the engine's commit of the batch made, or at a later one. */
  readonly dataset: Snapshot & History;
  /** The version that the engine's commit of the batch made. */
  readonly version: number;
  /** The version before that commit. */
  readonly before: OpenRequest & { readonly version: number };
  readonly totals: MergeTotals;
}

/** Counts by the rows that the commit changed, else by a search. Throws `Internal` where neither can be read. */
export async function rowsBeforeByCommit(batch: Batch, commit: RowsOfCommit): Promise<CountedRows> {
  try {
    const past = await commit.engine.open(commit.before);
    try {
      const isNextVersion = commit.version === commit.before.version + 1;
      const byCommit = isNextVersion ? await rowsBeforeByChanges(batch, commit, past) : undefined;
      if (byCommit !== undefined) return { by: 'commit', rowsBefore: byCommit };
      const search = () => countSoughtRows(past, soughtKeys(batch));
      // The commit is made, so only this is done again where the order of another client ended the process.
      const found = await search().catch((error: unknown) => {
        if (!(error instanceof LancegateError) || error.kind !== 'ReaderDied') throw error;
        return search();
      });
      return { by: 'search', rowsBefore: (key) => found[key] ?? 0 };
    } finally {
      past.close();
    }
  } catch (cause) {
    throw new LancegateError('Internal', 'the rows were merged, but their counts could not be found out', { cause });
  }
}

/** A batch has half as many; rows of keys that are there many times may be more, and each takes 100 bytes. */
const mostRowsRead = 100_000;

/**
 * An upsert rewrites the rows that it finds, so the keys of the rows it took away are those that were there, each as often
 * as it was; a merge that only inserts brings the keys that were not. undefined where the changed rows cannot be read, or
 * do not agree with the engine's own counts, as when some of the columns are updated in place.
 */
async function rowsBeforeByChanges(
  batch: Batch,
  { dataset, version, totals }: RowsOfCommit,
  past: Snapshot,
): Promise<RowsBefore | undefined> {
  if (batch.updates) {
    const removed = await changedRows(dataset, version, 'removed', totals.numUpdatedRows);
    if (removed === undefined) return undefined;
    const found = await countSoughtRows(past, soughtKeys(batch), removed);
    return (key) => found[key] ?? 0;
  }
  const added = await changedRows(dataset, version, 'added', totals.numInsertedRows);
  if (added === undefined) return undefined;
  const inserted = await countSoughtRows(dataset, soughtKeys(batch), added);
  return (key) => (inserted[key] === 0 ? 1 : 0);
}

async function changedRows(
  dataset: History,
  version: number,
  change: 'removed' | 'added',
  expectedRows: number,
): Promise<readonly RowAddressSql[] | undefined> {
  if (expectedRows > mostRowsRead) return undefined;
  const rows = await dataset.changedRows(version, change);
  return rows?.length === expectedRows ? rows : undefined;
}
