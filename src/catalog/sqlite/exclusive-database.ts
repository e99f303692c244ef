import { DatabaseSync } from 'node:sqlite';

/**
 * The lock is taken by the first access after `locking_mode`, so an empty transaction follows at once. The journal is
 * synced at every commit; only `synchronous = full` does that together with the write-ahead log.
 */
const takeLock = `
  pragma locking_mode = exclusive;
  pragma journal_mode = wal;
  pragma synchronous = full;
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
