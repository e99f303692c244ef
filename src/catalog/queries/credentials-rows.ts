import { type ApiKey, apiKeyOf, type StoredApiKey } from '../credentials.ts';
import type { ApiKeyRow, CatalogDb } from './catalog-db.ts';

const rowOf = (key: StoredApiKey): ApiKeyRow => ({
  id: key.id,
  secret_sha256: Buffer.from(key.secretHash).toString('hex'),
  subject: key.subject,
  scopes: JSON.stringify(key.scopes),
  groups: JSON.stringify(key.groups),
  created_at_ms: key.createdAtMs,
  expires_at_ms: key.expiresAtMs ?? null,
  revoked_at_ms: key.revokedAtMs ?? null,
});

const storedKeyOf = (row: ApiKeyRow): StoredApiKey => ({
  ...apiKeyOf(row),
  secretHash: Buffer.from(row.secret_sha256, 'hex'),
});

export async function insertApiKey(db: CatalogDb, key: StoredApiKey): Promise<void> {
  await db.insertInto('api_keys').values(rowOf(key)).execute();
}

export async function findApiKeys(db: CatalogDb, ids: readonly string[]): Promise<readonly StoredApiKey[]> {
  const rows = await db.selectFrom('api_keys').selectAll().where('id', 'in', ids).execute();
  return rows.map(storedKeyOf);
}

export async function listApiKeys(db: CatalogDb): Promise<readonly ApiKey[]> {
  const rows = await db.selectFrom('api_keys').selectAll().orderBy('created_at_ms').orderBy('id').execute();
  return rows.map(apiKeyOf);
}

export async function revokeApiKey(db: CatalogDb, id: string, atMs: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('api_keys')
    .set(({ fn, val }) => ({ revoked_at_ms: fn.coalesce('revoked_at_ms', val(atMs)) }))
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return numUpdatedRows === 1n;
}

/** The issuer of tokens for clients, and that of tokens by which replicas vouch for them. */
export type Issuer = 'own' | 'replicas';

export async function readIssuerKeys(db: CatalogDb, issuer: Issuer): Promise<string | undefined> {
  const row = await db.selectFrom('issuer_keys').select('document').where('issuer', '=', issuer).executeTakeFirst();
  return row?.document;
}

export async function createIssuerKeys(db: CatalogDb, issuer: Issuer, document: string): Promise<void> {
  await db
    .insertInto('issuer_keys')
    .values({ issuer, document })
    .onConflict((conflict) => conflict.column('issuer').doNothing())
    .execute();
}

/** false if the document is not `seen` any more. */
export async function replaceIssuerKeys(
  db: CatalogDb,
  issuer: Issuer,
  seen: string,
  document: string,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('issuer_keys')
    .set({ document })
    .where('issuer', '=', issuer)
    .where('document', '=', seen)
    .executeTakeFirstOrThrow();
  return numUpdatedRows === 1n;
}
