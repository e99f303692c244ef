/**
 * What became of requests with an `Idempotency-Key`. A row has an answer, or it says that a commit was announced and on
 * top of which version; one key has one row, and a later row takes the place of an earlier one.
 */
import type { IdempotencyKey } from '../../kernel/ids.ts';
import type { KeyedAnswer, KeyedCommit, KeyedRequest, RequestOwner } from '../port.ts';
import { type CatalogDb, type IdempotencyKeyRow, insertable } from './catalog-db.ts';
import { tablePathOf, tableRefOf } from './full-path.ts';

const rowOfRequest = (request: KeyedRequest) => ({
  owner: request.owner,
  key: request.key,
  request_digest: request.requestDigest,
  body_digest: request.bodyDigest,
  expires_at_ms: request.expiresAtMs,
});

const requestOf = (row: IdempotencyKeyRow): KeyedRequest => ({
  owner: row.owner,
  key: row.key,
  requestDigest: row.request_digest,
  bodyDigest: row.body_digest,
  expiresAtMs: row.expires_at_ms,
});

const rowOfAnswer = (answered: KeyedAnswer): IdempotencyKeyRow => ({
  ...rowOfRequest(answered),
  answer: answered.answer,
  table_id: null,
  table_path: null,
  branch: null,
  base_version: null,
});

const rowOfCommit = (commit: KeyedCommit): IdempotencyKeyRow => ({
  ...rowOfRequest(commit),
  answer: null,
  table_id: commit.tableId,
  table_path: tablePathOf(commit.ref),
  branch: commit.branch ?? null,
  base_version: commit.baseVersion,
});

const commitOf = (row: IdempotencyKeyRow): KeyedCommit => ({
  ...requestOf(row),
  tableId: row.table_id!,
  ref: tableRefOf(row.table_path!),
  branch: row.branch ?? undefined,
  baseVersion: row.base_version!,
});

export const insertAnswers = (db: CatalogDb, answers: readonly KeyedAnswer[]): Promise<void> =>
  putRows(db, answers.map(rowOfAnswer));

export const insertCommits = (db: CatalogDb, commits: readonly KeyedCommit[]): Promise<void> =>
  putRows(db, commits.map(rowOfCommit));

async function putRows(db: CatalogDb, rows: readonly IdempotencyKeyRow[]): Promise<void> {
  for (const some of insertable(rows)) {
    await db
      .insertInto('idempotency_keys')
      .values(some)
      .onConflict((conflict) =>
        conflict.columns(['owner', 'key']).doUpdateSet(({ ref }) => ({
          request_digest: ref('excluded.request_digest'),
          body_digest: ref('excluded.body_digest'),
          expires_at_ms: ref('excluded.expires_at_ms'),
          answer: ref('excluded.answer'),
          table_id: ref('excluded.table_id'),
          table_path: ref('excluded.table_path'),
          branch: ref('excluded.branch'),
          base_version: ref('excluded.base_version'),
        })),
      )
      .execute();
  }
}

export async function findKeyed(
  db: CatalogDb,
  owner: RequestOwner,
  key: IdempotencyKey,
): Promise<KeyedAnswer | KeyedCommit | undefined> {
  const row = await db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('owner', '=', owner)
    .where('key', '=', key)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  return row.answer === null ? commitOf(row) : { ...requestOf(row), answer: row.answer };
}

export async function announcedCommits(db: CatalogDb): Promise<readonly KeyedCommit[]> {
  const rows = await db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('answer', 'is', null)
    .orderBy('owner')
    .orderBy('key')
    .execute();
  return rows.map(commitOf);
}

export async function withdrawCommit(
  db: CatalogDb,
  { owner, key }: Pick<KeyedRequest, 'owner' | 'key'>,
): Promise<void> {
  await db
    .deleteFrom('idempotency_keys')
    .where('owner', '=', owner)
    .where('key', '=', key)
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
