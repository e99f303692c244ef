import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/**
 * Which replica writes to a table. An epoch of a name must never come twice. What an attempt at a keyed request records is
 * distinguished from what another one does, which may run in another replica.
 */
export const tableOwners = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('replicas')
      .addColumn('id', sortedText, (column) => column.primaryKey().notNull())
      .addColumn('address', 'text', (column) => column.notNull())
      .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
      .addColumn('is_leaving', 'integer', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('table_owners')
      .addColumn('path', sortedText, (column) => column.primaryKey().notNull())
      .addColumn('replica', sortedText)
      .addColumn('epoch', 'bigint', (column) => column.notNull())
      .addColumn('is_settled', 'integer', (column) => column.notNull())
      .addColumn('wanted_by', sortedText)
      .execute();
    await db.schema
      .createIndex('table_owners_by_replica')
      .on('table_owners')
      .columns(['replica', 'wanted_by'])
      .execute();
    await db.schema.alterTable('idempotency_keys').addColumn('attempt', sortedText).execute();
    await db.schema.alterTable('idempotency_keys').addColumn('asked_at_ms', 'bigint').execute();
  },
});
