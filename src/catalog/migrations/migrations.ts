/**
 * The schema's history goes forward only: a migration is never edited once released, and never taken back.
 *
 * While replicas are replaced one by one, older ones work on a newer schema. So a migration that they can ignore has a name that
 * ends in `-additive`: it adds tables, or columns that may be null, and what older ones write stays right. A catalog that holds
 * another migration which this list does not have is refused.
 */
import { type Kysely, sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { CatalogTooNew, CatalogUnusable } from '../open-errors.ts';
import { namespacesAndTables } from './0001-namespaces-and-tables.ts';
import { recoveryMarks } from './0002-open-branches.ts';
import { idempotencyKeys } from './0003-idempotency-keys.ts';
import { ownersOfPlaces } from './0004-owners-of-places.ts';
import { credentials } from './0005-credentials.ts';
import { tableOwners } from './0006-table-owners.ts';
import { storageRoot } from './0007-storage-root.ts';
import { databases } from './0008-databases.ts';
import { acknowledgedVersions } from './0009-acknowledged-versions.ts';
import { droppedTables } from './0010-dropped-tables.ts';
import type { ColumnTypes } from './column-types.ts';

/** Names sort in the order the migrations run. */
export const catalogMigrations = (types: ColumnTypes): Readonly<Record<string, Migration>> => ({
  '0001-namespaces-and-tables': namespacesAndTables(types),
  '0002-open-branches': recoveryMarks(types),
  '0003-idempotency-keys': idempotencyKeys(types),
  '0004-owners-of-places': ownersOfPlaces(types),
  '0005-credentials-additive': credentials(types),
  '0006-table-owners-additive': tableOwners(types),
  '0007-storage-root-additive': storageRoot(types),
  '0008-databases-additive': databases(types),
  '0009-acknowledged-versions-additive': acknowledgedVersions(types),
  '0010-dropped-tables-additive': droppedTables(types),
});

const migrationTableName = 'catalog_migrations';

type Migrations = Readonly<Record<string, Migration>>;

const additive = '-additive';

/** Returns the migrations that the schema lacks. `CatalogTooNew`. */
export async function pendingMigrations<Schema>(
  db: Kysely<Schema>,
  migrations: Migrations,
): Promise<readonly string[]> {
  const applied = await appliedMigrations(db);
  const unknown = applied.filter((name) => !Object.hasOwn(migrations, name) && !name.endsWith(additive));
  if (unknown.length > 0) {
    throw new CatalogTooNew(
      `The catalog was written by a newer lancegate: its schema has ${unknown.join(', ')}, which this one does not know.`,
    );
  }
  return Object.keys(migrations).filter((name) => !applied.includes(name));
}

/** Brings the schema up to date. `CatalogTooNew`, `CatalogUnusable`; a failed migration leaves the schema as it was. */
export async function migrateCatalog<Schema>(db: Kysely<Schema>, migrations: Migrations): Promise<void> {
  if ((await pendingMigrations(db, migrations)).length === 0) return;
  const migrator = new Migrator({
    db,
    provider: { getMigrations: async () => ({ ...migrations }) },
    migrationTableName,
    migrationLockTableName: 'catalog_migration_lock',
  });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw new CatalogUnusable('The catalog could not be migrated.', { cause: error });
}

async function appliedMigrations<Schema>(db: Kysely<Schema>): Promise<readonly string[]> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true });
  if (!tables.some((table) => table.name === migrationTableName)) return [];
  const names = sql<{ readonly name: string }>`select name from ${sql.table(migrationTableName)} order by name`;
  return (await names.execute(db)).rows.map(({ name }) => name);
}
