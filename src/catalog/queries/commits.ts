/**
 * What was committed: transactions, the branches that are open for writing, and the outcomes of requests with an
 * `Idempotency-Key`.
 */
import { isDeepStrictEqual } from 'node:util';
import { LancegateError } from '../../kernel/errors.ts';
import type { BranchName, IdempotencyKey, TableId, TableRef, TransactionId } from '../../kernel/ids.ts';
import type {
  AcknowledgedBranch,
  KeyedAnswer,
  KeyedRequest,
  OpenBranch,
  OpenBranchRecord,
  RequestOwner,
  TransactionRecord,
  WriteIntent,
} from '../port.ts';
import { keyTaken } from '../refusals.ts';
import {
  type CatalogDb,
  type IdempotencyKeyRow,
  insertable,
  propertiesFromJson,
  propertiesToJson,
  type TransactionRow,
  tablePathOf,
  tableRefOf,
} from './catalog-db.ts';

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

/** A transaction that is recorded already, with the same content, is left as it is: its caller did not get the first answer. */
export async function insertTransactions(db: CatalogDb, records: readonly TransactionRecord[]): Promise<void> {
  for (const rows of insertable(records.map(rowOf))) {
    const { numInsertedOrUpdatedRows } = await db
      .insertInto('transactions')
      .values(rows)
      .onConflict((conflict) => conflict.column('id').doNothing())
      .executeTakeFirstOrThrow();
    if (Number(numInsertedOrUpdatedRows) < rows.length) await requireRecorded(db, rows);
  }
  // Each branch has one update, with the newest version that the group brings.
  const newest = new Map<string, TransactionRecord>();
  for (const record of records) {
    const key = JSON.stringify([record.tableId, nameOf(record.branch)]);
    if (record.version > (newest.get(key)?.version ?? -1)) newest.set(key, record);
  }
  for (const { tableId, branch, version } of newest.values()) await acknowledgeVersion(db, tableId, branch, version);
}

async function requireRecorded(db: CatalogDb, rows: readonly TransactionRow[]): Promise<void> {
  const ids = rows.map(({ id }) => id);
  const recorded = await db.selectFrom('transactions').selectAll().where('id', 'in', ids).execute();
  const byId = new Map(recorded.map((row) => [row.id, row]));
  const other = rows.find((row) => !isDeepStrictEqual({ ...byId.get(row.id) }, row));
  if (other === undefined) return;
  throw new LancegateError('Internal', 'The catalog failed.', {
    internal: { catalog: 'another transaction has the same id', transactionId: other.id },
  });
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

const main = '';
const nameOf = (branch: BranchName | undefined): BranchName | typeof main => branch ?? main;

/** Enters a branch. After a crash the branches that were entered, and no others, can hold unacknowledged commits. */
export async function markOpenForWriting(db: CatalogDb, open: OpenBranch): Promise<void> {
  const row = { acknowledged_version: open.acknowledgedVersion, storage_session: open.storageSession };
  await db
    .insertInto('open_branches')
    .values({ table_id: open.tableId, branch: nameOf(open.branch), ...row })
    .onConflict((conflict) => conflict.columns(['table_id', 'branch']).doUpdateSet(row))
    .execute();
}

/** Records the version. The recorded one never goes backwards, and this leaves a branch alone that is not open. */
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

export async function listOpenBranches(db: CatalogDb, ref?: TableRef): Promise<readonly OpenBranchRecord[]> {
  const rows = await db
    .selectFrom('open_branches')
    .innerJoin('tables', 'tables.id', 'open_branches.table_id')
    .$call((query) => (ref === undefined ? query : query.where('tables.path', '=', tablePathOf(ref))))
    .select(['table_id', 'tables.path', 'tables.location', 'branch', 'acknowledged_version', 'storage_session'])
    .orderBy('tables.path')
    .orderBy('branch')
    .execute();
  return rows.map((row) => ({
    tableId: row.table_id,
    ref: tableRefOf(row.path),
    location: row.location,
    branch: row.branch === main ? undefined : row.branch,
    acknowledgedVersion: row.acknowledged_version,
    storageSession: row.storage_session,
  }));
}

/** What was acknowledged of a branch that is there stays known, so that one which has gone back is noticed. */
export async function closeBranch(
  db: CatalogDb,
  tableId: TableId,
  branch: BranchName | undefined,
  isGone = false,
): Promise<void> {
  const [known] = await acknowledgedBranches(db, { tableId, branch });
  const version = known?.acknowledgedVersion ?? 0;
  const row = { table_id: tableId, branch: nameOf(branch), version };
  if (isGone) {
    await db
      .deleteFrom('acknowledged_versions')
      .where('table_id', '=', tableId)
      .where('branch', '=', row.branch)
      .execute();
  } else if (version > 0) {
    await db
      .insertInto('acknowledged_versions')
      .values(row)
      .onConflict((conflict) => conflict.columns(['table_id', 'branch']).doUpdateSet({ version }))
      .execute();
  }
  await db.deleteFrom('open_branches').where('table_id', '=', tableId).where('branch', '=', row.branch).execute();
}

export async function acknowledgedBranches(
  db: CatalogDb,
  of?: Pick<OpenBranch, 'tableId' | 'branch'>,
): Promise<readonly AcknowledgedBranch[]> {
  const open = db.selectFrom('open_branches').select(['table_id', 'branch', 'acknowledged_version as version']);
  const closed = db.selectFrom('acknowledged_versions').select(['table_id', 'branch', 'version']);
  const rows = await db
    .selectFrom(open.unionAll(closed).as('known'))
    .innerJoin('tables', 'tables.id', 'known.table_id')
    .$call((query) =>
      of === undefined ? query : query.where('table_id', '=', of.tableId).where('branch', '=', nameOf(of.branch)),
    )
    .select(({ fn }) => ['table_id', 'tables.path', 'tables.location', 'branch', fn.max('version').as('version')])
    .groupBy(['table_id', 'tables.path', 'tables.location', 'branch'])
    .execute();
  return rows.map(({ table_id: tableId, path, location, branch, version }) => ({
    ...{ tableId, ref: tableRefOf(path), location, acknowledgedVersion: version },
    branch: branch === main ? undefined : branch,
  }));
}

/** One key has one row: an answer or a write intent. A later row replaces an earlier one. */
const rowOfRequest = (request: KeyedRequest) => ({
  owner: request.owner,
  key: request.key,
  request_digest: request.requestDigest,
  body_digest: request.bodyDigest,
  expires_at_ms: request.expiresAtMs,
  attempt: request.attempt,
  asked_at_ms: request.askedAtMs,
});

const requestOf = (row: IdempotencyKeyRow): KeyedRequest => ({
  owner: row.owner,
  key: row.key,
  requestDigest: row.request_digest,
  bodyDigest: row.body_digest,
  expiresAtMs: row.expires_at_ms,
  attempt: row.attempt ?? '',
  askedAtMs: row.asked_at_ms ?? 0,
});

const rowOfAnswer = (answered: KeyedAnswer): IdempotencyKeyRow => ({
  ...rowOfRequest(answered),
  answer: answered.answer,
  table_id: null,
  table_path: null,
  branch: null,
  base_version: null,
});

const rowOfIntent = (intent: WriteIntent): IdempotencyKeyRow => ({
  ...rowOfRequest(intent),
  answer: null,
  table_id: intent.tableId,
  table_path: tablePathOf(intent.ref),
  branch: intent.branch ?? null,
  base_version: intent.baseVersion,
});

function intentOf(row: IdempotencyKeyRow): WriteIntent {
  const { table_id: tableId, table_path: path, base_version: baseVersion } = row;
  if (tableId === null || path === null || baseVersion === null)
    throw new LancegateError('Internal', 'The catalog failed.', { internal: { catalog: 'an intent without a table' } });
  return { ...requestOf(row), tableId, ref: tableRefOf(path), branch: row.branch ?? undefined, baseVersion };
}

export const insertAnswers = (db: CatalogDb, answers: readonly KeyedAnswer[]): Promise<void> =>
  putRows(db, answers.map(rowOfAnswer));

export const insertIntents = (db: CatalogDb, intents: readonly WriteIntent[]): Promise<void> =>
  putRows(db, intents.map(rowOfIntent));

/**
 * What another attempt has recorded stays until the key expires: two replicas may work for one key at once, and the locks of keys are
 * of a process. An intent does not replace an answer either.
 */
async function putRows(db: CatalogDb, rows: readonly IdempotencyKeyRow[]): Promise<void> {
  for (const some of insertable(rows)) {
    const { numInsertedOrUpdatedRows } = await db
      .insertInto('idempotency_keys')
      .values(some)
      .onConflict((conflict) =>
        conflict
          .columns(['owner', 'key'])
          .doUpdateSet(({ ref }) => ({
            request_digest: ref('excluded.request_digest'),
            body_digest: ref('excluded.body_digest'),
            expires_at_ms: ref('excluded.expires_at_ms'),
            answer: ref('excluded.answer'),
            table_id: ref('excluded.table_id'),
            table_path: ref('excluded.table_path'),
            branch: ref('excluded.branch'),
            base_version: ref('excluded.base_version'),
            attempt: ref('excluded.attempt'),
            asked_at_ms: ref('excluded.asked_at_ms'),
          }))
          .where(({ or, and, eb, ref }) =>
            or([
              eb('idempotency_keys.expires_at_ms', '<=', ref('excluded.asked_at_ms')),
              and([
                eb('idempotency_keys.attempt', '=', ref('excluded.attempt')),
                or([eb('idempotency_keys.answer', 'is', null), eb('excluded.answer', 'is not', null)]),
              ]),
            ]),
          ),
      )
      .executeTakeFirstOrThrow();
    if (Number(numInsertedOrUpdatedRows) < some.length) throw keyTaken();
  }
}

export async function findKeyed(
  db: CatalogDb,
  owner: RequestOwner,
  key: IdempotencyKey,
): Promise<KeyedAnswer | WriteIntent | undefined> {
  const row = await db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('owner', '=', owner)
    .where('key', '=', key)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  return row.answer === null ? intentOf(row) : { ...requestOf(row), answer: row.answer };
}

export async function writeIntents(db: CatalogDb, ref?: TableRef): Promise<readonly WriteIntent[]> {
  const rows = await db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('answer', 'is', null)
    .$call((query) => (ref === undefined ? query : query.where('table_path', '=', tablePathOf(ref))))
    .orderBy('owner')
    .orderBy('key')
    .execute();
  return rows.map(intentOf);
}

export async function withdrawIntent(
  db: CatalogDb,
  { owner, key, attempt }: Pick<KeyedRequest, 'owner' | 'key' | 'attempt'> & { readonly ref?: TableRef },
): Promise<void> {
  await db
    .deleteFrom('idempotency_keys')
    .where('owner', '=', owner)
    .where('key', '=', key)
    .where(({ fn, val, eb }) => eb(fn.coalesce('attempt', val('')), '=', attempt))
    .where('answer', 'is', null)
    .execute();
}

export async function forgetKeys(db: CatalogDb, atMs: number, limit: number): Promise<number> {
  const expired = db
    .selectFrom('idempotency_keys')
    .select(['owner', 'key'])
    .where('expires_at_ms', '<=', atMs)
    .orderBy('expires_at_ms')
    .limit(limit);
  const { numDeletedRows } = await db
    .deleteFrom('idempotency_keys')
    .where(({ eb, refTuple }) => eb(refTuple('owner', 'key'), 'in', expired.$asTuple('owner', 'key')))
    .executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}
