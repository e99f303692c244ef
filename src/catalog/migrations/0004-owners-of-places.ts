import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { ColumnTypes } from './column-types.ts';

/**
 * The table that has a location, or had it last: to adopt the location, a principal needs rights there. Null for locations
 * that were left before this migration; those belong to the namespace whose folder holds them.
 */
export const ownersOfPlaces = ({ sortedText }: ColumnTypes): Migration => ({
  async up(db: Kysely<unknown>) {
    await db.schema.alterTable('locations').addColumn('owner', sortedText).execute();
    await sql`update locations set owner = coalesce(
      (select path from tables where tables.location = locations.location),
      (select path from creations where creations.location = locations.location))`.execute(db);
  },
});
