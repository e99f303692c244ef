/**
 * The embedded catalog is one SQLite file that one process owns. The lock is exclusive and held until `close` or the end
 * of the process, however it ends. Every commit is synced to disk before its promise resolves (P3).
 *
 * Each query blocks the event loop while it runs, and is short; the disk is waited for on another thread.
 */
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Kysely, sql } from 'kysely';
import { LRUCache } from 'lru-cache';
import { type Clock, type NewId, systemClock } from '../../kernel/clock.ts';
import type { ObjectName } from '../../kernel/ids.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { catalogMigrations, migrateCatalog } from '../migrations/migrations.ts';
import { CatalogHeld, CatalogTooNew, CatalogUnusable } from '../open-errors.ts';
import type { Catalog } from '../port.ts';
import type { CatalogSchema } from '../queries/catalog-db.ts';
import { agreeOnRoot } from '../queries/shared-root.ts';
import type { StorageRootCatalog } from '../replica-port.ts';
import { sqlCatalog } from '../sql-catalog.ts';
import { faultOf, isHeldByAnother } from './faults.ts';
import {
  CatalogFile,
  KnownTables,
  NodeSqliteDialect,
  SqliteSession,
  type SyncFile,
  syncOnDisk,
  WriteAheadLog,
} from './session.ts';

interface SqliteCatalogOptions {
  /** What another process learns of this one when it finds the catalog held. */
  readonly holder: Pick<CatalogHolder, 'command'>;
  readonly newId?: NewId;
  readonly clock?: Clock;
  /** Only tests bring their own. */
  readonly syncFile?: SyncFile;
}

/** This process holds the file of the catalog. */
interface SqliteCatalog extends Catalog, Pick<StorageRootCatalog, 'agreeOnRoot'> {
  /** Records for other processes the URL of this service, and what decides about tokens that `lancegate token` mints. */
  announce(service: Pick<CatalogHolder, 'acceptsOwnTokens' | 'policyFile'> & { readonly url: string }): void;
}

/**
 * Opens the catalog in the file `path`, making it if it is missing; its folder must be there. Fails with `CatalogHeld`,
 * `CatalogTooNew` or `CatalogUnusable`.
 */
export async function openSqliteCatalog(path: string, options: SqliteCatalogOptions): Promise<SqliteCatalog> {
  try {
    return await prepareCatalog(openExclusiveDatabase(path), path, options);
  } catch (error) {
    throw openErrorOf(path, error);
  }
}

/** From here on this process holds the lock: it says so first, and gives up both if the rest fails. */
async function prepareCatalog(
  database: DatabaseSync,
  path: string,
  { holder: { command }, newId = randomUUID, clock = systemClock, syncFile = syncOnDisk }: SqliteCatalogOptions,
): Promise<SqliteCatalog> {
  const holder: CatalogHolder = { pid: process.pid, startedAt: new Date(clock.nowMs()).toISOString(), command };
  let log: WriteAheadLog | undefined;
  try {
    writeHolder(path, holder);
    const opened = new WriteAheadLog(database, path, syncFile);
    log = opened;
    const tables = new KnownTables();
    const db = new Kysely<CatalogSchema>({ dialect: new NodeSqliteDialect(database, opened, tables) });
    await migrateCatalog(db, catalogMigrations({ sortedText: sql`text` }));
    await opened.synced();
    const session = new SqliteSession(db, opened, new CatalogFile(path));
    const catalog = sqlCatalog(session, newId);
    return {
      ...heldCatalog(withKnown(catalog, { tables, databases: new KnownDatabases(), log: opened }), path, holder),
      agreeOnRoot: (first) => session.transact((rows) => agreeOnRoot(rows, first)),
    };
  } catch (error) {
    removeHolder(path);
    database.close();
    log?.close();
    throw error;
  }
}

/** What is known is not told after a failure of the disk, nor of a closed catalog. */
const withKnown = (
  catalog: Catalog,
  {
    tables,
    databases,
    log,
  }: { readonly tables: KnownTables; readonly databases: KnownDatabases; readonly log: WriteAheadLog },
): Catalog => ({
  ...catalog,
  async findTable(table) {
    log.requireDisk();
    return tables.find(table, catalog.findTable);
  },
  async isDatabase(name) {
    log.requireDisk();
    return databases.isDatabase(name, catalog.isDatabase);
  },
  createNamespace: (...namespace) => databases.changing(catalog.createNamespace(...namespace)),
  close() {
    tables.forget();
    return catalog.close();
  },
});

/** Holds the folder of this file as the catalog in it would, for a process whose catalog is elsewhere. `CatalogHeld`. */
export function holdFolderOf(
  path: string,
  { holder: { command }, clock = systemClock }: Pick<SqliteCatalogOptions, 'holder' | 'clock'>,
): Pick<SqliteCatalog, 'announce'> & { release(): void } {
  try {
    const database = openExclusiveDatabase(path);
    const holder = { pid: process.pid, startedAt: new Date(clock.nowMs()).toISOString(), command };
    writeHolder(path, holder);
    return {
      announce: (service) => writeHolder(path, { ...holder, ...service }),
      release() {
        removeHolder(path);
        database.close();
      },
    };
  } catch (error) {
    throw openErrorOf(path, error);
  }
}

function heldCatalog(catalog: Catalog, path: string, holder: CatalogHolder): Omit<SqliteCatalog, 'agreeOnRoot'> {
  let closing: Promise<void> | undefined;
  return {
    ...catalog,
    announce: (service) => writeHolder(path, { ...holder, ...service }),
    close() {
      // While the lock still stands: later the file may be another process's.
      if (closing === undefined) removeHolder(path);
      closing ??= catalog.close();
      return closing;
    },
  };
}

function openErrorOf(path: string, error: unknown): Error {
  if (error instanceof CatalogTooNew || error instanceof CatalogUnusable) return error;
  if (isHeldByAnother(error)) {
    const holder = showHolder(path);
    return new CatalogHeld(`The catalog ${path} is held by ${holder}: end it, or name another folder by --data.`, {
      cause: error,
    });
  }
  const fault = faultOf(error) ?? (error instanceof Error ? error.message : String(error));
  return new CatalogUnusable(`The catalog ${path} cannot be opened: ${fault}.`, { cause: error });
}

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
 * The file is for its owner only, whatever the umask; SQLite gives its own files the mode of the database. An existing file is not opened:
 * closing a descriptor of it would release the process's locks on it (POSIX).
 */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // The file exists, or SQLite will report what is wrong.
  }
}

/**
 * Who holds the catalog: a small file next to it, for the message a second process gets. It is not the lock (that is
 * SQLite's, and ends with its process); a crash leaves the file behind and the next holder overwrites it, and a process
 * that cannot read it, or write it on a full disk, goes on without.
 */
interface CatalogHolder {
  readonly pid: number;
  /** It is written as in ISO 8601. */
  readonly startedAt: string;
  /** The command that it runs, such as `lancegate serve`. */
  readonly command: string;
  /** The process listens there, once it does. */
  readonly url?: string | undefined;
  /** It says whether the process accepts tokens that `lancegate token` mints; undefined before it listens. */
  readonly acceptsOwnTokens?: boolean;
  /** The file of its policies is this one; undefined where the default ones decide. */
  readonly policyFile?: string | undefined;
}

const holderFileOf = (catalogFile: string): string => join(dirname(catalogFile), 'lancegate.holder.json');

/** Synchronous, so that nothing runs between taking the lock and saying so. */
function writeHolder(catalogFile: string, holder: CatalogHolder): void {
  const file = holderFileOf(catalogFile);
  try {
    writeFileSync(`${file}.new`, JSON.stringify(holder), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch {
    removeHolder(catalogFile); // what is there names another process
  }
}

function removeHolder(catalogFile: string): void {
  try {
    rmSync(holderFileOf(catalogFile), { force: true });
  } catch {
    // It stays, as after a crash.
  }
}

/** `process 1234 (lancegate serve on http://127.0.0.1:2333, since …)`, or what is known instead. */
function showHolder(catalogFile: string): string {
  const holder = readHolder(catalogFile);
  if (holder === undefined) return 'another process';
  const where = holder.url === undefined ? '' : ` on ${holder.url}`;
  return `process ${holder.pid} (${holder.command}${where}, since ${holder.startedAt})`;
}

function readHolder(catalogFile: string): CatalogHolder | undefined {
  try {
    return parseHolder(JSON.parse(readFileSync(holderFileOf(catalogFile), 'utf8')));
  } catch {
    return undefined;
  }
}

function parseHolder(value: unknown): CatalogHolder | undefined {
  const { pid, startedAt, command, url } = isObject(value) ? value : {};
  if (typeof pid !== 'number' || typeof startedAt !== 'string' || typeof command !== 'string') return undefined;
  return { pid, startedAt, command, url: typeof url === 'string' ? url : undefined };
}

/**
 * Names that are no databases. Clients send one with every request, and the query costs what a small read can do without. One process
 * owns the database, so only its own changes make one of them.
 */
export class KnownDatabases {
  readonly #none = new LRUCache<ObjectName, true>({ max: 1_000 });
  #changes = 0;

  async isDatabase(name: ObjectName, read: (name: ObjectName) => Promise<boolean>): Promise<boolean> {
    if (this.#none.has(name)) return false;
    const changes = this.#changes;
    const isDatabase = await read(name);
    if (!isDatabase && changes === this.#changes) this.#none.set(name, true);
    return isDatabase;
  }

  /** What was read while the change was under way is not kept. */
  async changing<Done>(change: Promise<Done>): Promise<Done> {
    try {
      return await change;
    } finally {
      this.#changes += 1;
      this.#none.clear();
    }
  }
}
