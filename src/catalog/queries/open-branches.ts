/**
 * Branches that this process may be writing to. After a crash these, and no others, can hold unacknowledged commits.
 */
import type { BranchName, TableId } from '../../kernel/ids.ts';
import type { OpenBranch, OpenBranchRecord, TransactionRecord } from '../port.ts';
import type { CatalogDb } from './catalog-db.ts';
import { tableRefOf } from './full-path.ts';

const main = '';
const nameOf = (branch: BranchName | undefined): string => branch ?? main;

export async function markOpenForWriting(db: CatalogDb, open: OpenBranch): Promise<void> {
  const row = { acknowledged_version: open.acknowledgedVersion, storage_session: open.storageSession };
  await db
    .insertInto('open_branches')
    .values({ table_id: open.tableId, branch: nameOf(open.branch), ...row })
    .onConflict((conflict) => conflict.columns(['table_id', 'branch']).doUpdateSet(row))
    .execute();
}

/** Never backwards; nothing for a branch that is not open. */
export async function acknowledgeVersion(
  db: CatalogDb,
  tableId: TableId,
  branch: BranchName | undefined,
  version: number,
): Promise<void> {
  await db
    .updateTable('open_branches')
    .set({ acknowledged_version: version })
    .where('table_id', '=', tableId)
    .where('branch', '=', nameOf(branch))
    .where('acknowledged_version', '<', version)
    .execute();
}

/** One update per branch, with the newest version that the group brings. */
export async function acknowledgeRecorded(db: CatalogDb, records: readonly TransactionRecord[]): Promise<void> {
  const newest = new Map<string, TransactionRecord>();
  for (const record of records) {
    const key = JSON.stringify([record.tableId, nameOf(record.branch)]);
    if (record.version > (newest.get(key)?.version ?? -1)) newest.set(key, record);
  }
  for (const { tableId, branch, version } of newest.values()) await acknowledgeVersion(db, tableId, branch, version);
}

export async function listOpenBranches(db: CatalogDb): Promise<readonly OpenBranchRecord[]> {
  const rows = await db
    .selectFrom('open_branches')
    .innerJoin('tables', 'tables.id', 'open_branches.table_id')
    .select(['table_id', 'tables.path', 'tables.location', 'branch', 'acknowledged_version', 'storage_session'])
    .orderBy('tables.path')
    .orderBy('branch')
    .execute();
  return rows.map((row) => ({
    tableId: row.table_id,
    ref: tableRefOf(row.path),
    location: row.location,
    branch: row.branch === main ? undefined : (row.branch as BranchName),
    acknowledgedVersion: row.acknowledged_version,
    storageSession: row.storage_session,
  }));
}

export async function closeBranch(db: CatalogDb, tableId: TableId, branch: BranchName | undefined): Promise<void> {
  await db.deleteFrom('open_branches').where('table_id', '=', tableId).where('branch', '=', nameOf(branch)).execute();
}
