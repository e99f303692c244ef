import type { TransactionId } from '../../kernel/ids.ts';
import type { TransactionRecord } from '../port.ts';
import { type CatalogDb, insertable, propertiesFromJson, propertiesToJson, type TransactionRow } from './catalog-db.ts';
import { tablePathOf, tableRefOf } from './full-path.ts';
import { acknowledgeRecorded } from './open-branches.ts';

const rowOf = (record: TransactionRecord): TransactionRow => ({
  id: record.id,
  table_id: record.tableId,
  table_path: tablePathOf(record.ref),
  operation: record.operation,
  branch: record.branch ?? null,
  version: record.version,
  outcome: propertiesToJson(record.outcome),
  committed_at_ms: record.committedAtMs,
});

const recordOf = (row: TransactionRow): TransactionRecord => ({
  id: row.id,
  tableId: row.table_id,
  ref: tableRefOf(row.table_path),
  operation: row.operation,
  branch: row.branch ?? undefined,
  version: row.version,
  outcome: propertiesFromJson(row.outcome),
  committedAtMs: row.committed_at_ms,
});

export async function insertTransactions(db: CatalogDb, records: readonly TransactionRecord[]): Promise<void> {
  for (const rows of insertable(records.map(rowOf))) await db.insertInto('transactions').values(rows).execute();
  await acknowledgeRecorded(db, records);
}

export async function findTransaction(db: CatalogDb, id: TransactionId): Promise<TransactionRecord | undefined> {
  const row = await db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirst();
  return row && recordOf(row);
}

export async function forgetTransactions(db: CatalogDb, beforeMs: number, limit: number): Promise<number> {
  const old = db
    .selectFrom('transactions')
    .select('id')
    .where('committed_at_ms', '<', beforeMs)
    .orderBy('committed_at_ms')
    .limit(limit);
  const { numDeletedRows } = await db.deleteFrom('transactions').where('id', 'in', old).executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}
