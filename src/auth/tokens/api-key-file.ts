/**
 * An embedded service has its API keys in an SQLite file of their own, next to the catalog, because `lancegate key` changes it from
 * another process while the service runs. Every request reads its key's row (some 10 us), so a revocation holds from the next
 * request on.
 */
import { closeSync, fstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import {
  type ApiKey,
  type ApiKeyColumns,
  type ApiKeyRecords,
  apiKeyOf,
  type StoredApiKey,
} from '../../catalog/credentials.ts';
import { privateMode, requirePrivate } from '../private-file.ts';

const schema = `
  create table if not exists api_keys (
    id text primary key,
    secret_sha256 blob not null,
    subject text not null,
    scopes text not null,
    groups text not null,
    created_at_ms integer not null,
    expires_at_ms integer,
    revoked_at_ms integer
  ) strict`;

export class ApiKeyFile implements ApiKeyRecords, Disposable {
  readonly #database: DatabaseSync;
  readonly #byId: StatementSync;

  /** Creates the file, and its folder, if there is none. `AccessSetupError` for a file that others may read. */
  constructor(path: string) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    createPrivately(path);
    // For the write of another process, which takes milliseconds.
    this.#database = new DatabaseSync(path, { timeout: 5_000 });
    this.#database.exec(`pragma journal_mode = wal; pragma synchronous = full; ${schema}`);
    this.#byId = this.#database.prepare('select * from api_keys where id = ?');
  }

  async insert(key: StoredApiKey): Promise<void> {
    this.#database
      .prepare('insert into api_keys values (?, ?, ?, ?, ?, ?, ?, null)')
      .run(
        key.id,
        key.secretHash,
        key.subject,
        JSON.stringify(key.scopes),
        JSON.stringify(key.groups),
        key.createdAtMs,
        key.expiresAtMs ?? null,
      );
  }

  async find(id: string): Promise<StoredApiKey | undefined> {
    // The casts hold: the table is strict, and `insert` alone fills it.
    const row = this.#byId.get(id) as (ApiKeyColumns & { readonly secret_sha256: Uint8Array }) | undefined;
    return row && { ...apiKeyOf(row), secretHash: row.secret_sha256 };
  }

  async list(): Promise<readonly ApiKey[]> {
    const rows = this.#database.prepare('select * from api_keys order by created_at_ms, id').all();
    return (rows as unknown as ApiKeyColumns[]).map(apiKeyOf);
  }

  async revoke(id: string, atMs: number): Promise<boolean> {
    const { changes } = this.#database
      .prepare('update api_keys set revoked_at_ms = coalesce(revoked_at_ms, ?) where id = ?')
      .run(atMs, id);
    return changes === 1;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}

/** SQLite gives its `-wal` and `-shm` files the mode of the database. */
function createPrivately(path: string): void {
  const file = openSync(path, 'a', privateMode);
  try {
    requirePrivate(path, fstatSync(file).mode);
  } finally {
    closeSync(file);
  }
}
