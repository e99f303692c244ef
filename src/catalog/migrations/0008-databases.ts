import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** The names that a request may name as its database. One stays when its namespace goes: it must not come to mean the root. */
export const databases = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('databases')
      .addColumn('name', sortedText, (column) => column.primaryKey().notNull())
      .execute();
  },
});
