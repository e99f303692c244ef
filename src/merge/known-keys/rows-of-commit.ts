/** How many rows keys had before a commit, told by the rows that the commit itself took away or brought. */

import type { Dataset, MergeCounts } from '../../engine/port/engine.ts';
import type { RowAddressSql } from '../../engine/port/row-address.ts';
import { countRowsAt } from '../key-index/key-lookup.ts';
import type { MergeRequest } from '../merge-request.ts';
import type { RowsBefore } from '../queue/batch.ts';

/** A group has half as many; rows of keys that are there many times may be more, and each takes 100 bytes. */
const mostRows = 100_000;

export interface SharedCommit {
  /** Of any of the requests: they are alike in it. */
  readonly request: Pick<MergeRequest, 'on' | 'spec'>;
  readonly counts: MergeCounts;
  /** Standing at the version that the commit made. */
  readonly dataset: Dataset;
  /** The version before it. */
  readonly past: Dataset;
}

/**
 * An upsert rewrites the rows that it finds, so the keys of the rows it took away are those that were there, each as often
 * as it was; a merge that only inserts brings the keys that were not. Reading 10,000 rows by their addresses takes 40 ms
 * whatever the size of the table, where asking for as many keys takes a second (three million rows, measured). undefined
 * where this cannot be told, or does not agree with the engine's own counts, as when some of the columns are updated in
 * place.
 */
export async function rowsBeforeByCommit({
  request: { on, spec },
  counts,
  dataset,
  past,
}: SharedCommit): Promise<RowsBefore | undefined> {
  if (spec.whenMatchedUpdateAll !== false) {
    const removed = await changedRows(dataset, counts.version, 'removed', counts.numUpdatedRows);
    if (removed === undefined) return undefined;
    const found = await countRowsAt(past, removed, on);
    return (key) => found.get(key) ?? 0;
  }
  const added = await changedRows(dataset, counts.version, 'added', counts.numInsertedRows);
  if (added === undefined) return undefined;
  const inserted = await countRowsAt(dataset, added, on);
  return (key) => (inserted.has(key) ? 0 : 1);
}

async function changedRows(
  dataset: Dataset,
  version: number,
  change: 'removed' | 'added',
  expectedRows: number,
): Promise<readonly RowAddressSql[] | undefined> {
  if (expectedRows > mostRows) return undefined;
  const rows = await dataset.changedRows(version, change);
  return rows?.length === expectedRows ? rows : undefined;
}
