/**
 * Kysely's PostgreSQL dialect over `pg`, for servers that may fail at any time, and behind poolers that give each transaction
 * another server connection: no setting outlives its transaction, and no prepared statement has a name.
 */
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  PostgresAdapter,
  type PostgresCursor,
  PostgresDialect,
  PostgresDriver,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
  type TransactionSettings,
} from 'kysely';
import pg from 'pg';
import type { Clock } from '../../kernel/clock.ts';
import { CommitUnanswered, ConnectionLost, NoConnection, wasRolledBack } from './postgres-faults.ts';
import { ServerWatch } from './server-watch.ts';

export interface PoolLimits {
  readonly maxConnections: number;
  /** A connection has to be free, or made, within this time. */
  readonly acquireWithinMs: number;
  /** One statement may take so long; longer ones are ended, on both sides. */
  readonly statementWithinMs: number;
  /** It limits the time between two statements of a transaction: a process that stands still keeps its locks no longer. */
  readonly idleWithinMs: number;
}

/** It is a bounded pool in the shape that Kysely asks for. */
export class CatalogPool implements PostgresPool {
  readonly options = {};
  readonly #pool: pg.Pool;
  readonly #clock: Clock;
  readonly #watch: ServerWatch;
  readonly #answerWithinMs: number;

  constructor(connection: pg.ClientConfig, limits: PoolLimits, clock: Clock) {
    this.#pool = new pg.Pool({
      ...connection,
      max: limits.maxConnections,
      connectionTimeoutMillis: limits.acquireWithinMs,
      idleTimeoutMillis: 60_000,
      keepAlive: true,
      types: { getTypeParser: parserOf },
    });
    // An idle connection was lost, and the pool has dropped it.
    this.#pool.on('error', () => undefined);
    this.#clock = clock;
    this.#watch = new ServerWatch(connection, clock);
    // The server gets two seconds more than the statement may take, before this gives the connection up.
    this.#answerWithinMs = limits.statementWithinMs + 2_000;
  }

  /**
   * Throws `NoConnection` where there is none in time, or at once where the server is known to be silent; the server's own error where
   * it refuses one.
   */
  async connect(): Promise<PostgresPoolClient> {
    if (this.#watch.isSilent) throw new NoConnection('the server is silent');
    try {
      return new CatalogClient(await this.#pool.connect(), this.#clock, this.#watch, this.#answerWithinMs);
    } catch (cause) {
      if (cause instanceof pg.DatabaseError) throw cause;
      void this.#watch.ask(); // so that the next ones need not wait, if the server is the reason
      throw new NoConnection('no connection', { cause });
    }
  }

  end(): Promise<void> {
    this.#watch.close();
    return this.#pool.end();
  }
}

const int8 = pg.types.builtins.INT8;

/** All integers of the catalog are safe ones. */
const parserOf = ((id: number, format: 'text') =>
  id === int8 ? Number : pg.types.getTypeParser(id, format)) as pg.CustomTypesConfig['getTypeParser'];

/** Gives a connection up that failed to answer, since a later answer would be taken for that of the next query. */
class CatalogClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #clock: Clock;
  readonly #watch: ServerWatch;
  readonly #answerWithinMs: number;
  #isLost = false;

  constructor(client: pg.PoolClient, clock: Clock, watch: ServerWatch, answerWithinMs: number) {
    this.#client = client;
    this.#clock = clock;
    this.#watch = watch;
    this.#answerWithinMs = answerWithinMs;
    // The query under way fails with the same error.
    client.on('error', this.#lose);
  }

  query<Row>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query<Row>(cursor: PostgresCursor<Row>): PostgresCursor<Row>;
  query(sql: unknown, parameters: readonly unknown[] = []): unknown {
    return this.#query(String(sql), parameters);
  }

  release(isDiscarded = false): void {
    this.#client.off('error', this.#lose);
    this.#client.release(isDiscarded || this.#isLost);
  }

  /** Several statements in one text have the result of the last. */
  async #query(sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult> {
    if (this.#isLost) throw new ConnectionLost('the connection was lost before');
    const late = Promise.withResolvers<never>();
    const refuse = (why: string) => () => late.reject(new ConnectionLost(why));
    const cancel = this.#clock.schedule(this.#answerWithinMs, refuse('no answer in time'));
    const stopWatching = this.#watch.whileWaiting(refuse('the server is silent'));
    try {
      const results = await Promise.race([this.#client.query(sql, [...parameters]), late.promise]);
      const last = [results].flat().at(-1);
      if (last !== undefined) return last;
      throw new ConnectionLost('the server has answered none of the statements');
    } catch (cause) {
      if (wasRolledBack(cause)) throw cause;
      this.#lose();
      throw cause instanceof pg.DatabaseError ? cause : new ConnectionLost('the connection was lost', { cause });
    } finally {
      cancel();
      stopWatching();
    }
  }

  readonly #lose = (): void => {
    this.#isLost = true;
  };
}

export class CatalogDialect extends PostgresDialect {
  readonly #pool: PostgresPool;
  readonly #limits: PoolLimits;

  constructor(pool: PostgresPool, limits: PoolLimits) {
    super({ pool });
    this.#pool = pool;
    this.#limits = limits;
  }

  override createDriver(): Driver {
    return new CatalogDriver(this.#pool, this.#limits);
  }

  override createAdapter(): PostgresAdapter {
    return new UnlockedMigrationsAdapter();
  }
}

/** The migrator runs in a transaction that holds the lock already, which `openPostgresCatalog` takes. */
class UnlockedMigrationsAdapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

/** What is known of a transaction before its `COMMIT`. */
interface Begun {
  readonly xid: string;
  readonly started: string;
}

class CatalogDriver extends PostgresDriver {
  readonly #begin: string;
  readonly #begun = new WeakMap<DatabaseConnection, Begun>();

  constructor(pool: PostgresPool, { statementWithinMs, idleWithinMs }: PoolLimits) {
    super({ pool });
    this.#begin = [
      `set local statement_timeout = ${statementWithinMs}`,
      `set local idle_in_transaction_session_timeout = ${idleWithinMs}`,
      // Of a table with few rows the planner prefers to read all, which conflicts with every concurrent write to that table.
      'set local enable_seqscan = off',
      'select pg_current_xact_id()::text as xid, extract(epoch from pg_postmaster_start_time())::text as started',
    ].join('; ');
  }

  /** One round trip begins it with its settings. */
  override async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    const start = `start transaction isolation level ${settings.isolationLevel ?? 'read committed'}`;
    const { rows } = await connection.executeQuery<Begun>(CompiledQuery.raw(`${start}; ${this.#begin}`));
    const [begun] = rows;
    if (begun !== undefined) this.#begun.set(connection, begun);
  }

  override async commitTransaction(connection: DatabaseConnection): Promise<void> {
    const begun = this.#begun.get(connection);
    try {
      await super.commitTransaction(connection);
    } catch (error) {
      const isUnanswered =
        error instanceof ConnectionLost || (error instanceof pg.DatabaseError && !wasRolledBack(error));
      throw isUnanswered && begun !== undefined ? new CommitUnanswered(begun.xid, begun.started, error) : error;
    }
  }

  /** A lost connection has no transaction any more; that failure would be reported in place of the first. */
  override async rollbackTransaction(connection: Parameters<PostgresDriver['rollbackTransaction']>[0]): Promise<void> {
    await super.rollbackTransaction(connection).catch(() => undefined);
  }
}
