import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { SqliteDatabase, SqliteStatement } from 'kysely';
import { LRUCache } from 'lru-cache';

/**
 * `node:sqlite` in the shape Kysely's SQLite driver asks for. It prepares a statement each time a query runs, which costs more
 * than the query, so prepared statements are kept by their text: many more than the catalog's queries, since an insert has one
 * text for each number of rows.
 */
export function preparedStatements(database: DatabaseSync): SqliteDatabase {
  const statements = new LRUCache<string, SqliteStatement>({
    max: 128,
    memoMethod: (sql) => adapt(database.prepare(sql)),
  });
  return { prepare: (sql) => statements.memo(sql), close: () => database.close() };
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
