import { closeSync, openSync } from 'node:fs';
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
  createPrivately(path);
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec(takeLock);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * For its owner only, whatever the umask; SQLite gives its own files the mode of the database. An existing file is not opened:
 * closing a descriptor of it would release the process's locks on it (POSIX).
 */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // The file exists, or SQLite will report what is wrong.
  }
}
