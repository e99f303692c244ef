/**
 * Makes the commits of one SQLite database durable (P3) without the event loop waiting for the disk: a commit would keep it
 * for 1 ms on an idle disk, and for 170 with other writers (measured).
 *
 * SQLite appends each commit to its log, and with `synchronous = normal` leaves the log to the operating system. Here it is
 * synced, on another thread, once for all commits that were made until then. No commit may be acknowledged before, nor
 * anything that was read after it.
 *
 * From time to time what is in the log is put into the database, and SQLite begins the log anew with the next commit. A
 * power cut in between must find either the log or the database whole, so the order is: the log is synced, the pages are
 * written, the database is synced, and until then there is no next commit.
 *
 * After a failed `fsync` Linux counts the lost pages as clean and lets the next one succeed. So the first failure is final:
 * everything fails from then on, until the next start has looked at what is on the disk.
 */
import { closeSync, constants, fdatasync, openSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { LancegateError } from '../../kernel/errors.ts';

/** Resolves once the content of an open file is on the disk. */
export type SyncFile = (descriptor: number) => Promise<void>;

export const syncOnDisk: SyncFile = promisify(fdatasync);

export class WriteAheadLog {
  readonly #database: DatabaseSync;
  readonly #sync: SyncFile;
  readonly #logFile: number;
  readonly #databaseFile: number;
  /** Commits that were made and that are durable. What is there at the start a killed process may have left in memory only. */
  #made = 1;
  #durable = 0;
  #syncing: Promise<void> | undefined;
  #failure: LancegateError | undefined;

  /** `database`: open, locked by this process, with a log that nothing else puts into it. */
  constructor(database: DatabaseSync, path: string, sync: SyncFile) {
    this.#database = database;
    this.#sync = sync;
    this.#logFile = openSync(`${path}-wal`, constants.O_RDWR);
    this.#databaseFile = openSync(path, constants.O_RDWR);
  }

  /** To be called after each commit, before anybody else can read what it brought. */
  committed(): void {
    this.#made += 1;
  }

  /** Resolves when all that is committed now is durable. Throws `Internal` where that cannot be said any more. */
  async synced(): Promise<void> {
    const made = this.#made;
    this.#requireDisk();
    while (this.#durable < made) {
      this.#syncing ??= this.#syncLog();
      await this.#syncing;
    }
  }

  /**
   * To be called where no transaction is open; none may begin before it resolves. What stays in the log, such as on a full
   * disk, is left for the next time. Throws as `synced` does.
   */
  async putIntoDatabase(): Promise<void> {
    await this.synced();
    this.#database.exec('pragma synchronous = off');
    try {
      this.#database.exec('pragma wal_checkpoint(passive)');
    } finally {
      this.#database.exec('pragma synchronous = normal');
    }
    await this.#syncFile(this.#databaseFile);
  }

  /**
   * Only after the database has been closed: to close any descriptor of its file lets go of the locks that the process has
   * on it (POSIX).
   */
  close(): void {
    closeSync(this.#logFile);
    closeSync(this.#databaseFile);
  }

  async #syncLog(): Promise<void> {
    const made = this.#made;
    try {
      await this.#syncFile(this.#logFile);
      this.#durable = made;
    } finally {
      this.#syncing = undefined;
    }
  }

  async #syncFile(descriptor: number): Promise<void> {
    try {
      await this.#sync(descriptor);
    } catch (cause) {
      this.#failure ??= diskFailed(cause);
    }
    this.#requireDisk();
  }

  #requireDisk(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}

const diskFailed = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'The catalog failed.', {
    cause,
    internal: { catalog: 'the disk failed to keep it; nothing more is taken until the service is started again' },
  });
