/** Replicas that share a catalog keep their credentials in it. */
import { type Clock, ExpiringCache } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type ApiKey, type ApiKeyRecords, apiKeyOf, type IssuerKeyRecords, type StoredApiKey } from './credentials.ts';
import type { ApiKeyRow } from './queries/catalog-db.ts';
import type { SqlSession } from './sql-catalog.ts';

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

type Asked = Map<string, PromiseWithResolvers<StoredApiKey | undefined>>;

/**
 * API keys by one query at a time, for all requests that wait for one: a client that tries ids has one connection of the catalog, and no
 * more.
 */
export class SqlApiKeys implements ApiKeyRecords {
  readonly #session: SqlSession;
  readonly #clock: Clock;
  readonly #known: ExpiringCache<{ readonly key: StoredApiKey | undefined }>;
  #asked: Asked = new Map();
  #isAsking = false;

  constructor(session: SqlSession, clock: Clock) {
    this.#session = session;
    this.#clock = clock;
    this.#known = new ExpiringCache(10_000, clock);
  }

  async insert(key: StoredApiKey): Promise<void> {
    await this.#session.transact((db) => db.insertInto('api_keys').values(rowOf(key)).execute());
  }

  async find(id: string): Promise<StoredApiKey | undefined> {
    const known = this.#known.get(id);
    if (known !== undefined) return known.key;
    const answer = this.#asked.get(id) ?? Promise.withResolvers<StoredApiKey | undefined>();
    this.#asked.set(id, answer);
    if (!this.#isAsking) void this.#askAll();
    return answer.promise;
  }

  async list(): Promise<readonly ApiKey[]> {
    const rows = await this.#session.read((db) =>
      db.selectFrom('api_keys').selectAll().orderBy('created_at_ms').orderBy('id').execute(),
    );
    return rows.map(apiKeyOf);
  }

  async revoke(id: string, atMs: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#session.transact((db) =>
      db
        .updateTable('api_keys')
        .set(({ fn, val }) => ({ revoked_at_ms: fn.coalesce('revoked_at_ms', val(atMs)) }))
        .where('id', '=', id)
        .executeTakeFirstOrThrow(),
    );
    return numUpdatedRows === 1n;
  }

  async #askAll(): Promise<void> {
    this.#isAsking = true;
    while (this.#asked.size > 0) {
      const asked = this.#asked;
      this.#asked = new Map();
      await this.#ask(asked);
    }
    this.#isAsking = false;
  }

  async #ask(asked: Asked): Promise<void> {
    // A replica believes for a second what it has read. After that a revocation holds everywhere.
    const untilMs = this.#clock.nowMs() + 1_000;
    try {
      const ids = [...asked.keys()];
      const rows = await this.#session.read((db) =>
        db.selectFrom('api_keys').selectAll().where('id', 'in', ids).execute(),
      );
      const byId = new Map(rows.map((row) => [row.id, row]));
      for (const [id, answer] of asked) {
        const row = byId.get(id);
        const key = row && { ...apiKeyOf(row), secretHash: Buffer.from(row.secret_sha256, 'hex') };
        this.#known.set(id, { key }, untilMs);
        answer.resolve(key);
      }
    } catch (error) {
      for (const answer of asked.values()) answer.reject(error);
    }
  }
}

/** The issuer of tokens for clients signs with one document of keys, and replicas that vouch for clients with another. */
type Issuer = 'own' | 'replicas';

export class SqlIssuerKeys implements IssuerKeyRecords {
  readonly name: string;
  readonly #session: SqlSession;
  readonly #issuer: Issuer;

  constructor(session: SqlSession, issuer: Issuer) {
    this.name =
      issuer === 'own' ? 'The key of the own issuer in the catalog' : 'The key of the replicas in the catalog';
    this.#session = session;
    this.#issuer = issuer;
  }

  async signature(): Promise<string> {
    return (await this.read()) ?? 'missing';
  }

  async read(): Promise<string | undefined> {
    const row = await this.#session.read((db) =>
      db.selectFrom('issuer_keys').select('document').where('issuer', '=', this.#issuer).executeTakeFirst(),
    );
    return row?.document;
  }

  async create(document: string): Promise<void> {
    await this.#session.transact((db) =>
      db
        .insertInto('issuer_keys')
        .values({ issuer: this.#issuer, document })
        .onConflict((conflict) => conflict.column('issuer').doNothing())
        .execute(),
    );
  }

  async replace(next: (document: string) => Promise<string>): Promise<void> {
    for (;;) {
      const seen = await this.read();
      if (seen === undefined) throw new LancegateError('Internal', 'there is no document to replace');
      const document = await next(seen);
      const { numUpdatedRows } = await this.#session.transact((db) =>
        db
          .updateTable('issuer_keys')
          .set({ document })
          .where('issuer', '=', this.#issuer)
          .where('document', '=', seen)
          .executeTakeFirstOrThrow(),
      );
      if (numUpdatedRows === 1n) return;
    }
  }
}
