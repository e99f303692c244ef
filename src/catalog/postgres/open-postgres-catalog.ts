/**
 * The catalog of several replicas: a PostgreSQL database that they share. What it acknowledges is as durable as the server's
 * `synchronous_commit` makes it (P3).
 */
import { randomUUID } from 'node:crypto';
import { Kysely, sql } from 'kysely';
import type { ClientConfig } from 'pg';
import { type Clock, type NewId, systemClock } from '../../kernel/clock.ts';
import { catalogMigrations, migrateCatalog, pendingMigrations } from '../migrations/migrations.ts';
import { type Catalog, CatalogTooNew, CatalogUnusable } from '../port.ts';
import type { CatalogSchema } from '../queries/catalog-db.ts';
import { sqlCatalog } from '../sql-catalog.ts';
import { CatalogDialect, CatalogPool, type PoolLimits } from './dialect.ts';
import { PostgresSession, type Random } from './postgres-session.ts';

export interface PostgresCatalogOptions {
  readonly limits?: Partial<PoolLimits>;
  readonly newId?: NewId;
  readonly clock?: Clock;
  readonly random?: Random;
}

const defaultLimits: PoolLimits = { maxConnections: 10, acquireWithinMs: 5_000, statementWithinMs: 30_000 };

/**
 * Opens the catalog and brings its schema up to date, also where several replicas start at once. Fails with `CatalogTooNew` or
 * `CatalogUnusable`, whose texts name the server and the database and never the password.
 */
export async function openPostgresCatalog(
  connection: ClientConfig,
  { limits, newId = randomUUID, clock = systemClock, random = Math.random }: PostgresCatalogOptions = {},
): Promise<Catalog> {
  try {
    await migrate(connection, clock);
  } catch (error) {
    throw openErrorOf(connection, error);
  }
  const db = openDatabase(connection, { ...defaultLimits, ...limits }, clock);
  return sqlCatalog(new PostgresSession(db, clock, random), newId);
}

const openDatabase = (connection: ClientConfig, limits: PoolLimits, clock: Clock): Kysely<CatalogSchema> =>
  new Kysely({ dialect: new CatalogDialect(new CatalogPool(connection, limits, clock), limits) });

/** Of this program; other programs that lock by number in the same database have other numbers. */
const migrationLock = 5_278_213_946_001;

/** What waits for another replica's migrations waits this long; additive ones take moments. */
const migratedWithinMs = 300_000;

/** Replicas that find nothing to do take no lock, so a start does not wait for a migration that it needs not. */
async function migrate(connection: ClientConfig, clock: Clock): Promise<void> {
  const migrations = catalogMigrations({ sortedText: sql`text collate "C"` });
  const limits = { ...defaultLimits, maxConnections: 1, statementWithinMs: migratedWithinMs };
  const db = openDatabase(connection, limits, clock);
  try {
    if ((await pendingMigrations(db, migrations)).length === 0) return;
    await db.transaction().execute(async (locked) => {
      await sql`select pg_advisory_xact_lock(${sql.lit(migrationLock)})`.execute(locked);
      await migrateCatalog(locked, migrations);
    });
  } finally {
    await db.destroy();
  }
}

function openErrorOf({ host, port, database }: ClientConfig, error: unknown): Error {
  if (error instanceof CatalogTooNew || error instanceof CatalogUnusable) return error;
  return new CatalogUnusable(`The catalog in database ${database} on ${host}:${port} cannot be opened.`, {
    cause: error,
  });
}
