/**
 * API keys, for clients that cannot get a token: the principal of each, and when it ends. A key is `lgk_`, an id that may be
 * shown, and a secret of 256 bits that is shown once; only the hash of the secret is stored.
 *
 * One SQLite file of its own, next to the catalog, because `lancegate api-key` changes it from another process while the
 * service runs. Every request reads its key's row (some 10 us), so a revocation holds from the next request on.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { closeSync, fstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import { invalidToken } from '../challenge.ts';
import { privateMode, requirePrivate } from '../private-file.ts';
import type { Credential, Verifier } from './verifier.ts';

interface ApiKeyRequest {
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups?: readonly string[];
  /** undefined: until it is revoked. */
  readonly expiresAtMs?: number | undefined;
}

export interface ApiKey {
  readonly id: string;
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly groups: readonly string[];
  readonly createdAtMs: number;
  readonly expiresAtMs: number | undefined;
  readonly revokedAtMs: number | undefined;
}

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

const principalIssuer = 'api-key';
const prefix = 'lgk_';
const form = /^lgk_([0-9a-f]{16})_([0-9a-f]{64})$/;

export const looksLikeApiKey = (credential: string): boolean => credential.startsWith(prefix);

/** One plain SHA-256 is enough: 256 random bits cannot be guessed, and every request pays for it. */
const hashSecret = (secret: string): Buffer => hash('sha256', secret, 'buffer');

export class ApiKeyStore implements Verifier, Disposable {
  readonly #database: DatabaseSync;
  readonly #byId: StatementSync;
  readonly #clock: Clock;
  /** A key's row never changes but for its revocation, so one key keeps one principal object. */
  readonly #principals = new LRUCache<string, Principal>({ max: 10_000 });
  /** For the comparison where the id is unknown, which so takes as long as with a wrong secret. */
  readonly #anyHash = randomBytes(32);

  private constructor(database: DatabaseSync, clock: Clock) {
    this.#database = database;
    this.#byId = database.prepare('select * from api_keys where id = ?');
    this.#clock = clock;
  }

  /** Creates the file, and its folder, if there is none. `AccessSetupError` for a file that others may read. */
  static open(path: string, clock: Clock): ApiKeyStore {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    createPrivately(path);
    // For the write of another process, which takes milliseconds.
    const database = new DatabaseSync(path, { timeout: 5_000 });
    database.exec(`pragma journal_mode = wal; pragma synchronous = full; ${schema}`);
    return new ApiKeyStore(database, clock);
  }

  /** `key` is the only time the secret is seen. */
  create(request: ApiKeyRequest): { readonly key: string; readonly record: ApiKey } {
    const { subject, scopes, groups = [], expiresAtMs } = request;
    const createdAtMs = this.#clock.nowMs();
    if (subject === '') throw invalidInput('An API key needs a subject.');
    if (expiresAtMs !== undefined && expiresAtMs <= createdAtMs) throw invalidInput('The expiry lies in the past.');

    const id = randomBytes(8).toString('hex');
    const secret = randomBytes(32).toString('hex');
    const record = { id, subject, scopes, groups, createdAtMs, expiresAtMs, revokedAtMs: undefined };
    this.#insert(record, hashSecret(secret));
    return { key: `${prefix}${id}_${secret}`, record };
  }

  /** All keys, revoked ones included, oldest first. */
  list(): readonly ApiKey[] {
    return this.#database.prepare('select * from api_keys order by created_at_ms, id').all().map(apiKeyOf);
  }

  /** false if there is no such key. A key revoked before keeps the time of its revocation. */
  revoke(id: string): boolean {
    const { changes } = this.#database
      .prepare('update api_keys set revoked_at_ms = coalesce(revoked_at_ms, ?) where id = ?')
      .run(this.#clock.nowMs(), id);
    return changes === 1;
  }

  close(): void {
    this.#database.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #insert(key: ApiKey, secretHash: Buffer): void {
    this.#database
      .prepare('insert into api_keys values (?, ?, ?, ?, ?, ?, ?, null)')
      .run(
        key.id,
        secretHash,
        key.subject,
        JSON.stringify(key.scopes),
        JSON.stringify(key.groups),
        key.createdAtMs,
        key.expiresAtMs ?? null,
      );
  }

  async verify({ kind, secret: apiKey }: Credential): Promise<Principal | undefined> {
    if (kind === 'bearer' && !looksLikeApiKey(apiKey)) return undefined;
    const [, id, secret] = form.exec(apiKey) ?? [];
    if (id === undefined || secret === undefined) throw invalidToken('The API key is malformed.');

    const row = this.#byId.get(id);
    const expected = row === undefined ? this.#anyHash : (row.secret_sha256 as Uint8Array);
    const matches = timingSafeEqual(hashSecret(secret), expected);
    if (row === undefined || !matches) throw invalidToken('The API key is unknown.');

    const key = apiKeyOf(row);
    if (key.revokedAtMs !== undefined) throw invalidToken('The API key was revoked.', { keyId: key.id });
    if (key.expiresAtMs !== undefined && key.expiresAtMs <= this.#clock.nowMs()) {
      throw invalidToken('The API key has expired.', { keyId: key.id });
    }
    return this.#principalOf(key);
  }

  #principalOf({ id, subject, scopes, groups }: ApiKey): Principal {
    const known = this.#principals.get(id);
    if (known !== undefined) return known;
    const principal = { subject, scopes, groups, issuer: principalIssuer, keyId: id };
    this.#principals.set(id, principal);
    return principal;
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

/** The casts hold: the table is strict, and `create` alone fills it. */
const apiKeyOf = (row: Record<string, unknown>): ApiKey => ({
  id: row.id as string,
  subject: row.subject as string,
  scopes: JSON.parse(row.scopes as string) as readonly string[],
  groups: JSON.parse(row.groups as string) as readonly string[],
  createdAtMs: row.created_at_ms as number,
  expiresAtMs: (row.expires_at_ms as number | null) ?? undefined,
  revokedAtMs: (row.revoked_at_ms as number | null) ?? undefined,
});
