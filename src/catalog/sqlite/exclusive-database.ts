import { DatabaseSync } from 'node:sqlite';

/**
 * The lock is taken by the first access after `locking_mode`, so an empty transaction follows at once. The log is synced and
 * put into the database by `WriteAheadLog`.
 */
const takeLock = `
  pragma locking_mode = exclusive;
  pragma journal_mode = wal;
  pragma synchronous = normal;
  pragma wal_autocheckpoint = 0;
  pragma foreign_keys = on;
  begin immediate;
  commit`;

/** Opens the database, making it if it is missing, and locks it until it is closed. Throws SQLite's own errors. */
export function openExclusiveDatabase(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec(takeLock);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}
