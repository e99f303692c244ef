import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/** Empty where credentials are in files of the data folder. A secret is there as its SHA-256, in hexadecimal. */
export const credentials = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('api_keys')
      .addColumn('id', sortedText, (column) => column.primaryKey().notNull())
      .addColumn('secret_sha256', 'text', (column) => column.notNull())
      .addColumn('subject', 'text', (column) => column.notNull())
      .addColumn('scopes', 'text', (column) => column.notNull())
      .addColumn('groups', 'text', (column) => column.notNull())
      .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
      .addColumn('expires_at_ms', 'bigint')
      .addColumn('revoked_at_ms', 'bigint')
      .execute();
    await db.schema
      .createTable('issuer_keys')
      .addColumn('issuer', sortedText, (column) => column.primaryKey().notNull())
      .addColumn('document', 'text', (column) => column.notNull())
      .execute();
  },
});
