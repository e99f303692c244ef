import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** It has the newest acknowledged version of each branch that is not open for writing. An empty branch is main. */
export const acknowledgedVersions = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('acknowledged_versions')
      .addColumn('table_id', sortedText, (column) => column.notNull().references('tables.id').onDelete('cascade'))
      .addColumn('branch', sortedText, (column) => column.notNull())
      .addColumn('version', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('one_row_per_acknowledged_branch', ['table_id', 'branch'])
      .execute();
  },
});
