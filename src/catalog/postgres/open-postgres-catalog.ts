/**
 * Several replicas have their catalog in a PostgreSQL database, which no other program uses. What it acknowledges is as durable
 * as the server's `synchronous_commit` makes it (P3).
 */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Kysely, sql } from 'kysely';
import type { ClientConfig } from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';
import { type Clock, type NewId, systemClock } from '../../kernel/clock.ts';
import { catalogMigrations, migrateCatalog, pendingMigrations } from '../migrations/migrations.ts';
import { CatalogTooNew, CatalogUnusable } from '../open-errors.ts';
import type { Catalog } from '../port.ts';
import type { CatalogSchema } from '../queries/catalog-db.ts';
import type { OwnedNames, SharedCatalog } from '../replica-port.ts';
import { type SqlSession, sharedCatalog, sqlCatalog } from '../sql-catalog.ts';
import { CatalogDialect, CatalogPool, type PoolLimits } from './dialect.ts';
import { openFaultOf } from './postgres-faults.ts';
import { PostgresSession, type Random } from './postgres-session.ts';

export interface PostgresCatalogOptions {
  readonly limits?: Partial<PoolLimits>;
  readonly newId?: NewId;
  readonly clock?: Clock;
  readonly random?: Random;
}

const defaultLimits: PoolLimits = {
  maxConnections: 10,
  acquireWithinMs: 5_000,
  statementWithinMs: 30_000,
  // Less than a lease lasts: who claims what a frozen replica owned does not wait for its transactions.
  idleWithinMs: 3_000,
};

/** See `openPostgresSession`. */
export async function openPostgresCatalog(
  address: DatabaseAddress,
  options: PostgresCatalogOptions = {},
): Promise<Catalog> {
  return sqlCatalog(await openPostgresSession(address, options), options.newId ?? randomUUID);
}

/** Opens the database as `openPostgresSession`, for a replica that owns `names`. */
export async function openSharedCatalog(
  address: DatabaseAddress,
  names: OwnedNames,
  options: PostgresCatalogOptions = {},
): Promise<SharedCatalog> {
  return sharedCatalogOf(await openPostgresSession(address, options), names, options.newId ?? randomUUID);
}

export const sharedCatalogOf = (session: SqlSession, names: OwnedNames, newId: NewId): SharedCatalog =>
  sharedCatalog(session, newId, names, {
    nowMs: sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
    locksRows: true,
  });

/**
 * Opens the database and brings its schema up to date, also where several replicas start at once. Fails with `CatalogTooNew` or
 * `CatalogUnusable`, whose texts name the server and the database and never the password.
 */
export async function openPostgresSession(
  address: DatabaseAddress,
  { limits, clock = systemClock, random = Math.random }: PostgresCatalogOptions = {},
): Promise<SqlSession> {
  const connection = connectionOf(address);
  try {
    await migrate(connection, clock);
  } catch (error) {
    throw openErrorOf(connection, error);
  }
  const db = openDatabase(connection, { ...defaultLimits, ...limits }, clock);
  return new PostgresSession(db, clock, random);
}

/** Says what is there, and changes nothing. Fails as `openPostgresSession`. */
export async function describeDatabase(address: DatabaseAddress, clock: Clock) {
  const connection = connectionOf(address);
  const db = openDatabase(connection, { ...defaultLimits, maxConnections: 1 }, clock);
  try {
    const { rows } = await sql<{ serverVersion: string; nowMs: number; isStandby: boolean }>`
      select current_setting('server_version') as "serverVersion",
        (extract(epoch from clock_timestamp()) * 1000)::bigint as "nowMs",
        pg_is_in_recovery() as "isStandby"`.execute(db);
    const pending = await pendingMigrations(db, catalogMigrations({ sortedText: sql`text collate "C"` }));
    const [described] = rows;
    if (described === undefined) throw new CatalogUnusable('The server does not describe itself.');
    return { ...described, name: connection.name, pendingMigrations: pending.length };
  } catch (error) {
    throw openErrorOf(connection, error);
  } finally {
    await db.destroy();
  }
}

const openDatabase = (connection: DatabaseConnection, limits: PoolLimits, clock: Clock): Kysely<CatalogSchema> =>
  new Kysely({ dialect: new CatalogDialect(new CatalogPool(connection.config, limits, clock), limits) });

/** A replica that finds nothing to do takes no lock. */
async function migrate(connection: DatabaseConnection, clock: Clock): Promise<void> {
  const migrations = catalogMigrations({ sortedText: sql`text collate "C"` });
  const withinMs = 300_000; // a replica waits so long for the migrations of another one, and for its own
  const limits = { ...defaultLimits, maxConnections: 1, statementWithinMs: withinMs, idleWithinMs: withinMs };
  const db = openDatabase(connection, limits, clock);
  try {
    if ((await pendingMigrations(db, migrations)).length === 0) return;
    await db.transaction().execute(async (locked) => {
      // Other programs that lock by number in the same database have other numbers.
      await sql`select pg_advisory_xact_lock(5278213946001)`.execute(locked);
      await migrateCatalog<CatalogSchema>(locked, migrations);
    });
  } finally {
    await db.destroy();
  }
}

function openErrorOf({ name }: DatabaseConnection, error: unknown): Error {
  if (error instanceof CatalogTooNew || error instanceof CatalogUnusable) return error;
  return new CatalogUnusable(`The catalog in ${name} cannot be opened: ${openFaultOf(error)}.`, { cause: error });
}

/** The URL is such as `postgres://user@host/database?sslmode=verify-full`. */
interface DatabaseAddress {
  /** A password in it is believed; without one, `passwordFile` says it, or `PGPASSWORD` or `PGPASSFILE` of the process. */
  readonly url: string;
  /** Read for each new connection, so that the password may change. */
  readonly passwordFile?: string | undefined;
}

interface DatabaseConnection {
  readonly config: ClientConfig;
  /** Operators read it; it lacks the password. */
  readonly name: string;
}

/** Throws where the URL names a certificate that cannot be read. */
function connectionOf({ url, passwordFile }: DatabaseAddress): DatabaseConnection {
  const parsed = toClientConfig(parse(url, { useLibpqCompat: true }));
  const { host = '127.0.0.1', port = 5432, database } = parsed;
  // Editors end files with a newline that is not part of the password.
  const password =
    parsed.password ||
    (passwordFile === undefined ? undefined : async () => (await readFile(passwordFile, 'utf8')).replace(/\r?\n$/, ''));
  const config = {
    ...parsed,
    ...(password === undefined ? {} : { password }),
    ssl: parsed.ssl ?? !isThisMachine(host),
    application_name: 'lancegate',
  };
  return { config, name: `database '${database}' on ${host.startsWith('/') ? host : `${host}:${port}`}` };
}

/** Elsewhere the server must prove who it is, unless the URL has an `sslmode` that says otherwise. */
const isThisMachine = (host: string): boolean => /^(\/|localhost$|::1$|127(\.\d+){3}$)/.test(host);
