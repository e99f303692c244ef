import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** Several replicas name tables by locations below this root. The table is empty where one process has the catalog for itself. */
export const storageRoot = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('storage_root')
      .addColumn('only_row', 'integer', (column) => column.primaryKey().notNull())
      .addColumn('root', sortedText, (column) => column.notNull())
      .execute();
  },
});
