import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** Tables that can be brought back: what `tables` said of each, and until when. */
export const droppedTables = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('dropped_tables')
      .addColumn('id', sortedText, (column) => column.primaryKey().notNull())
      .addColumn('path', sortedText, (column) => column.notNull())
      .addColumn('namespace', sortedText, (column) => column.notNull())
      .addColumn('name', sortedText, (column) => column.notNull())
      .addColumn('location', sortedText, (column) => column.notNull().unique())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('properties', 'text', (column) => column.notNull())
      .addColumn('storage_options', 'text', (column) => column.notNull())
      .addColumn('dropped_at_ms', 'bigint', (column) => column.notNull())
      .addColumn('kept_until_ms', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('dropped_tables_by_path').on('dropped_tables').column('path').execute();
    await db.schema.createIndex('dropped_tables_by_end').on('dropped_tables').column('kept_until_ms').execute();
  },
});
