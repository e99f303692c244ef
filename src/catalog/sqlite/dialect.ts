import type { DatabaseSync } from 'node:sqlite';
import {
  type DatabaseConnection,
  type Driver,
  SqliteAdapter,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
} from 'kysely';
import { preparedStatements } from './statements.ts';

/** Kysely's SQLite dialect over `node:sqlite`, with three differences, all below. */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #database: DatabaseSync;
  readonly #config: SqliteDialectConfig;
  readonly #onCommit: () => void;

  /** `onCommit` is called after each commit, before anybody else can read what it brought. */
  constructor(database: DatabaseSync, onCommit: () => void = () => undefined) {
    const config = { database: preparedStatements(database) };
    super(config);
    this.#database = database;
    this.#config = config;
    this.#onCommit = onCommit;
  }

  override createDriver(): Driver {
    return new WatchedDriver(this.#config, this.#database, this.#onCommit);
  }

  override createAdapter(): SqliteAdapter {
    return new AtomicMigrationsAdapter();
  }
}

/**
 * Tells of commits while it still has the connection, which the next who reads needs. And on a full disk or an I/O error SQLite
 * has rolled back already: a second rollback fails, and that failure would be reported in place of the first.
 */
class WatchedDriver extends SqliteDriver {
  readonly #database: DatabaseSync;
  readonly #onCommit: () => void;

  constructor(config: SqliteDialectConfig, database: DatabaseSync, onCommit: () => void) {
    super(config);
    this.#database = database;
    this.#onCommit = onCommit;
  }

  override async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await super.commitTransaction(connection);
    this.#onCommit();
  }

  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#database.isTransaction) await super.rollbackTransaction(connection);
  }
}

/** SQLite can undo schema changes; saying so makes the migrator run in a transaction, so that a crash leaves no half. */
class AtomicMigrationsAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}
