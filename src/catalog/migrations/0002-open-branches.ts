import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** Rows go with their table: what a dropped or replaced table had is removed whole. An empty branch is main. */
export const recoveryMarks = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('open_branches')
      .addColumn('table_id', sortedText, (column) => column.notNull().references('tables.id').onDelete('cascade'))
      .addColumn('branch', sortedText, (column) => column.notNull())
      .addColumn('acknowledged_version', 'bigint', (column) => column.notNull())
      .addColumn('storage_session', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('one_row_per_open_branch', ['table_id', 'branch'])
      .execute();
  },
});
