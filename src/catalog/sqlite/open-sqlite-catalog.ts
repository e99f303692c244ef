/**
 * The embedded catalog: one SQLite file that one process owns. The lock is exclusive and held until `close` or the end
 * of the process, however it ends. Every commit is synced to disk before its promise resolves (P3).
 *
 * Each query blocks the event loop while it runs, and is short; the disk is waited for on another thread.
 */
import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { Kysely, sql } from 'kysely';
import { type Clock, type NewId, systemClock } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { migrateCatalog } from '../migrations/migrate.ts';
import { catalogMigrations } from '../migrations/migrations.ts';
import { CatalogHeld, CatalogTooNew, CatalogUnusable } from '../open-errors.ts';
import type { Catalog } from '../port.ts';
import type { CatalogSchema } from '../queries/catalog-db.ts';
import { sqlCatalog } from '../sql-catalog.ts';
import { NodeSqliteDialect } from './dialect.ts';
import { openExclusiveDatabase } from './exclusive-database.ts';
import { faultOf, isHeldByAnother } from './faults.ts';
import { type CatalogHolder, removeHolder, showHolder, writeHolder } from './holder.ts';
import { SqliteSession } from './session.ts';
import { type SyncFile, syncOnDisk, WriteAheadLog } from './write-ahead-log.ts';

export interface SqliteCatalogOptions {
  /** How this process is named to another one that finds the catalog held. */
  readonly holder: { readonly command: string; readonly url?: string };
  readonly newId?: NewId;
  readonly clock?: Clock;
  /** Only tests bring their own. */
  readonly syncFile?: SyncFile;
}

/** A catalog in a file that this process holds. */
export interface SqliteCatalog extends Catalog {
  /** Records for other processes the URL of this service, and whether it accepts tokens that `lancegate token` mints. */
  announce(service: { readonly url: string; readonly acceptsOwnTokens?: boolean }): void;
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

/** From here on this process holds the lock: it says so first, and lets go of both if the rest fails. */
async function prepareCatalog(
  database: DatabaseSync,
  path: string,
  { holder: { command, url }, newId = randomUUID, clock = systemClock, syncFile = syncOnDisk }: SqliteCatalogOptions,
): Promise<SqliteCatalog> {
  const holder: CatalogHolder = { pid: process.pid, startedAt: new Date(clock.nowMs()).toISOString(), command, url };
  let log: WriteAheadLog | undefined;
  try {
    writeHolder(path, holder);
    const opened = new WriteAheadLog(database, path, syncFile);
    log = opened;
    const db = new Kysely<CatalogSchema>({ dialect: new NodeSqliteDialect(database, () => opened.committed()) });
    await migrateCatalog(db, catalogMigrations({ sortedText: sql`text` }));
    await opened.synced();
    return heldCatalog(sqlCatalog(new SqliteSession(db, opened, fileCheck(path)), newId), path, holder);
  } catch (error) {
    removeHolder(path);
    database.close();
    log?.close();
    throw error;
  }
}

function heldCatalog(catalog: Catalog, path: string, holder: CatalogHolder): SqliteCatalog {
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

/** Some microseconds each, and no file of another process's making passes for ours. */
function fileCheck(path: string): () => void {
  const { ino } = statSync(path);
  return () => {
    if (statSync(path, { throwIfNoEntry: false })?.ino === ino) return;
    throw new LancegateError('Internal', 'The catalog failed.', {
      internal: {
        catalog: 'its file was removed or replaced; nothing more is taken until the service is started again',
      },
    });
  };
}

function openErrorOf(path: string, error: unknown): Error {
  if (error instanceof CatalogTooNew || error instanceof CatalogUnusable) return error;
  if (isHeldByAnother(error)) {
    return new CatalogHeld(`The catalog ${path} is held by ${showHolder(path)}.`, { cause: error });
  }
  const fault = faultOf(error) ?? (error instanceof Error ? error.message : String(error));
  return new CatalogUnusable(`The catalog ${path} cannot be opened: ${fault}.`, { cause: error });
}
