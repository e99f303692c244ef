/**
 * API keys, for clients that cannot get a token: who holds which, until when. Only hashes are kept.
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

export interface ApiKeyRequest {
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

export class ApiKeyStore implements Verifier, Disposable {
  readonly #database: DatabaseSync;
  readonly #byId: StatementSync;
  readonly #clock: Clock;
  /** A key's row never changes but for its revocation, so one key keeps one principal object. */
  readonly #principals = new LRUCache<string, Principal>({ max: 10_000 });
  /** Compared with where the id is unknown, so that this takes as long as a wrong secret. */
  readonly #nobodysHash = randomBytes(32);

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

    const parts = newApiKey();
    const record = { id: parts.id, subject, scopes, groups, createdAtMs, expiresAtMs, revokedAtMs: undefined };
    this.#insert(record, hashSecret(parts.secret));
    return { key: showApiKey(parts), record };
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

  async verify({ kind, secret }: Credential): Promise<Principal | undefined> {
    if (kind === 'bearer' && !looksLikeApiKey(secret)) return undefined;
    const parts = parseApiKey(secret);
    if (parts === undefined) throw invalidToken('The API key is malformed.');

    const row = this.#byId.get(parts.id);
    const expected = row === undefined ? this.#nobodysHash : (row.secret_sha256 as Uint8Array);
    const matches = timingSafeEqual(hashSecret(parts.secret), expected);
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

/** SQLite gives its `-wal` and `-shm` files the mode of the database, so that one is all to be set. */
function createPrivately(path: string): void {
  const file = openSync(path, 'a', privateMode);
  try {
    requirePrivate(path, fstatSync(file).mode);
  } finally {
    closeSync(file);
  }
}

/** Rows are ours: the table is strict and `create` alone fills it. */
const apiKeyOf = (row: Record<string, unknown>): ApiKey => ({
  id: row.id as string,
  subject: row.subject as string,
  scopes: JSON.parse(row.scopes as string) as readonly string[],
  groups: JSON.parse(row.groups as string) as readonly string[],
  createdAtMs: row.created_at_ms as number,
  expiresAtMs: (row.expires_at_ms as number | null) ?? undefined,
  revokedAtMs: (row.revoked_at_ms as number | null) ?? undefined,
});

/** What an API key looks like: `lgk_`, an id that may be shown, and a secret of 256 bits that is shown once. */

const prefix = 'lgk_';
const form = /^lgk_([0-9a-f]{16})_([0-9a-f]{64})$/;

export interface ApiKeyParts {
  readonly id: string;
  readonly secret: string;
}

export const newApiKey = (): ApiKeyParts => ({
  id: randomBytes(8).toString('hex'),
  secret: randomBytes(32).toString('hex'),
});

export const showApiKey = ({ id, secret }: ApiKeyParts): string => `${prefix}${id}_${secret}`;

export const looksLikeApiKey = (credential: string): boolean => credential.startsWith(prefix);

export function parseApiKey(credential: string): ApiKeyParts | undefined {
  const [, id, secret] = form.exec(credential) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** One plain SHA-256 is enough: 256 random bits cannot be guessed, and every request pays for it. */
export const hashSecret = (secret: string): Buffer => hash('sha256', secret, 'buffer');
