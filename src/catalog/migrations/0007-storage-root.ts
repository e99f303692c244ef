import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** Where the tables are that several replicas name by locations below it. Empty where one process has the catalog for itself. */
export const storageRoot = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('storage_root')
      .addColumn('only_row', 'integer', (column) => column.primaryKey().notNull())
      .addColumn('root', sortedText, (column) => column.notNull())
      .execute();
  },
});
