import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** A request may name these as its database. A name stays when its namespace goes: it must not come to mean the root. */
export const databases = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('databases')
      .addColumn('name', sortedText, (column) => column.primaryKey().notNull())
      .execute();
  },
});
