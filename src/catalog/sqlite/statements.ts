import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { SqliteDatabase, SqliteStatement } from 'kysely';

/** Far more than the catalog's queries; what turns over are inserts of several rows, one text per number of rows. */
const maxCached = 128;

/**
 * `node:sqlite` in the shape Kysely's SQLite driver asks for. It prepares a statement each time a query runs, which
 * costs more than the query, so prepared ones are kept by their text, the least recently used going first.
 */
export class PreparedStatements implements SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #cached = new Map<string, SqliteStatement>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  prepare(sql: string): SqliteStatement {
    const statement = this.#cached.get(sql) ?? adapt(this.#database.prepare(sql));
    this.#cached.delete(sql);
    this.#cached.set(sql, statement);
    if (this.#cached.size > maxCached) this.#cached.delete(this.#cached.keys().next().value!);
    return statement;
  }

  close(): void {
    this.#cached.clear();
    this.#database.close();
  }
}

function adapt(statement: StatementSync): SqliteStatement {
  const values = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[];
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...values(parameters)),
    run: (parameters) => statement.run(...values(parameters)),
    iterate: (parameters) => statement.iterate(...values(parameters)),
  };
}
