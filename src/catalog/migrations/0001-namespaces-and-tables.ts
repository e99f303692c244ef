import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** The root namespace is a row like any other, so that foreign keys need no exception for it. */
export const namespacesAndTables = (types: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await createNamespaces(db, types);
    await sql`insert into namespaces (path, parent, name, properties) values ('', null, '', '{}')`.execute(db);
    await createLocations(db, types);
    await createTables(db, types);
    await createCreations(db, types);
    await createTransactions(db, types);
  },
});

async function createNamespaces(db: Kysely<unknown>, { sortedText }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('namespaces')
    .addColumn('path', sortedText, (column) => column.primaryKey().notNull())
    .addColumn('parent', sortedText, (column) => column.references('namespaces.path'))
    .addColumn('name', sortedText, (column) => column.notNull())
    .addColumn('properties', 'text', (column) => column.notNull())
    .addUniqueConstraint('one_namespace_per_name', ['parent', 'name'])
    .execute();
}

async function createLocations(db: Kysely<unknown>, { sortedText }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('locations')
    .addColumn('location', sortedText, (column) => column.primaryKey().notNull())
    .addColumn('state', 'text', (column) => column.notNull().check(sql`state in ('live', 'discarded', 'retired')`))
    .execute();
  // Nearly every location is live or retired: a sweep must not read those.
  await db.schema.createIndex('locations_by_state').on('locations').columns(['state', 'location']).execute();
}

async function createTables(db: Kysely<unknown>, { sortedText }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('tables')
    .addColumn('id', sortedText, (column) => column.primaryKey().notNull())
    .addColumn('path', sortedText, (column) => column.notNull().unique())
    .addColumn('namespace', sortedText, (column) => column.notNull().references('namespaces.path'))
    .addColumn('name', sortedText, (column) => column.notNull())
    .addColumn('location', sortedText, (column) => column.notNull().unique().references('locations.location'))
    .addColumn('state', 'text', (column) => column.notNull().check(sql`state in ('declared', 'created')`))
    .addColumn('properties', 'text', (column) => column.notNull())
    .addColumn('storage_options', 'text', (column) => column.notNull())
    .addUniqueConstraint('one_table_per_name', ['namespace', 'name'])
    .execute();
}

async function createCreations(db: Kysely<unknown>, { sortedText }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('creations')
    .addColumn('id', sortedText, (column) => column.primaryKey().notNull())
    .addColumn('path', sortedText, (column) => column.notNull().unique())
    .addColumn('namespace', sortedText, (column) => column.notNull().references('namespaces.path'))
    .addColumn('location', sortedText, (column) => column.notNull().unique().references('locations.location'))
    .execute();
  await db.schema.createIndex('creations_of_namespace').on('creations').column('namespace').execute();
}

async function createTransactions(db: Kysely<unknown>, { sortedText }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('transactions')
    .addColumn('id', sortedText, (column) => column.primaryKey().notNull())
    .addColumn('table_id', sortedText, (column) => column.notNull())
    .addColumn('table_path', sortedText, (column) => column.notNull())
    .addColumn('operation', 'text', (column) => column.notNull())
    .addColumn('branch', sortedText)
    .addColumn('version', 'bigint', (column) => column.notNull())
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('committed_at_ms', 'bigint', (column) => column.notNull())
    .execute();
  await db.schema.createIndex('transactions_by_age').on('transactions').column('committed_at_ms').execute();
}
