import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** A row is an answer or a write intent: the columns of the one are null in the other. */
export const idempotencyKeys = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('idempotency_keys')
      .addColumn('owner', sortedText, (column) => column.notNull())
      .addColumn('key', sortedText, (column) => column.notNull())
      .addColumn('request_digest', 'text', (column) => column.notNull())
      .addColumn('body_digest', 'text', (column) => column.notNull())
      .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
      .addColumn('answer', 'text')
      .addColumn('table_id', sortedText)
      .addColumn('table_path', sortedText)
      .addColumn('branch', sortedText)
      .addColumn('base_version', 'bigint')
      .addPrimaryKeyConstraint('idempotency_key_of_owner', ['owner', 'key'])
      .addCheckConstraint('answered_or_announced', sql`(answer is null) = (table_id is not null)`)
      .execute();
    await db.schema.createIndex('idempotency_keys_by_age').on('idempotency_keys').column('expires_at_ms').execute();
  },
});
