import type { DatabaseSync } from 'node:sqlite';
import {
  type DatabaseConnection,
  type Driver,
  SqliteAdapter,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
} from 'kysely';
import { PreparedStatements } from './statements.ts';

/** Kysely's SQLite dialect over `node:sqlite`, with two differences, both below. */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #database: DatabaseSync;
  readonly #config: SqliteDialectConfig;

  constructor(database: DatabaseSync) {
    const config = { database: new PreparedStatements(database) };
    super(config);
    this.#database = database;
    this.#config = config;
  }

  override createDriver(): Driver {
    return new RollbackOnceDriver(this.#config, this.#database);
  }

  override createAdapter(): SqliteAdapter {
    return new AtomicMigrationsAdapter();
  }
}

/**
 * On a full disk or an I/O error SQLite has rolled back already. A second rollback fails, and that failure would be
 * reported in place of the first.
 */
class RollbackOnceDriver extends SqliteDriver {
  readonly #database: DatabaseSync;

  constructor(config: SqliteDialectConfig, database: DatabaseSync) {
    super(config);
    this.#database = database;
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
