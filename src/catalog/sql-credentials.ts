/** The credentials of the replicas that share a catalog. */
import { type Clock, ExpiringCache } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { ApiKey, ApiKeyRecords, IssuerKeyRecords, StoredApiKey } from './credentials.ts';
import * as rows from './queries/credentials-rows.ts';
import type { SqlSession } from './sql-catalog.ts';

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

  insert(key: StoredApiKey): Promise<void> {
    return this.#session.transact((db) => rows.insertApiKey(db, key));
  }

  async find(id: string): Promise<StoredApiKey | undefined> {
    const known = this.#known.get(id);
    if (known !== undefined) return known.key;
    const answer = this.#asked.get(id) ?? Promise.withResolvers<StoredApiKey | undefined>();
    this.#asked.set(id, answer);
    if (!this.#isAsking) void this.#askAll();
    return answer.promise;
  }

  list(): Promise<readonly ApiKey[]> {
    return this.#session.read(rows.listApiKeys);
  }

  revoke(id: string, atMs: number): Promise<boolean> {
    return this.#session.transact((db) => rows.revokeApiKey(db, id, atMs));
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
    // How long a replica believes what it has read: a revocation holds everywhere after that.
    const untilMs = this.#clock.nowMs() + 1_000;
    try {
      const found = await this.#session.read((db) => rows.findApiKeys(db, [...asked.keys()]));
      const byId = new Map(found.map((key) => [key.id, key]));
      for (const [id, answer] of asked) {
        const key = byId.get(id);
        this.#known.set(id, { key }, untilMs);
        answer.resolve(key);
      }
    } catch (error) {
      for (const answer of asked.values()) answer.reject(error);
    }
  }
}

export class SqlIssuerKeys implements IssuerKeyRecords {
  readonly name: string;
  readonly #session: SqlSession;
  readonly #issuer: rows.Issuer;

  constructor(session: SqlSession, issuer: rows.Issuer) {
    this.name =
      issuer === 'own' ? 'The key of the own issuer in the catalog' : 'The key of the replicas in the catalog';
    this.#session = session;
    this.#issuer = issuer;
  }

  async signature(): Promise<string> {
    return (await this.read()) ?? 'missing';
  }

  read(): Promise<string | undefined> {
    return this.#session.read((db) => rows.readIssuerKeys(db, this.#issuer));
  }

  create(document: string): Promise<void> {
    return this.#session.transact((db) => rows.createIssuerKeys(db, this.#issuer, document));
  }

  async replace(next: (document: string) => Promise<string>): Promise<void> {
    for (;;) {
      const seen = await this.read();
      if (seen === undefined) throw new LancegateError('Internal', 'there is no document to replace');
      const document = await next(seen);
      if (await this.#session.transact((db) => rows.replaceIssuerKeys(db, this.#issuer, seen, document))) return;
    }
  }
}
