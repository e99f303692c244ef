/**
 * The schema's history, forward only: a migration is never edited once released, and never taken back. A catalog that
 * holds a migration this list does not have was written by a newer lancegate and is refused.
 */
import type { Migration } from 'kysely/migration';
import { namespacesAndTables } from './0001-namespaces-and-tables.ts';
import { recoveryMarks } from './0002-open-branches.ts';
import { idempotencyKeys } from './0003-idempotency-keys.ts';
import { ownersOfPlaces } from './0004-owners-of-places.ts';
import type { ColumnTypes } from './column-types.ts';

/** Names sort in the order the migrations run. */
export const catalogMigrations = (types: ColumnTypes): Readonly<Record<string, Migration>> => ({
  '0001-namespaces-and-tables': namespacesAndTables(types),
  '0002-open-branches': recoveryMarks,
  '0003-idempotency-keys': idempotencyKeys(types),
  '0004-owners-of-places': ownersOfPlaces(types),
});
