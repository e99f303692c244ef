/**
 * Who holds which place on storage. A place is given out once; a place somebody deregistered may be adopted again.
 * It is let go of only when neither a table nor a creation holds it: a create that materialises a declared table
 * writes to the declared place, so both can hold it for a while.
 */
import { invalidInput } from '../../kernel/errors.ts';
import type { Location, TableRef } from '../../kernel/ids.ts';
import { concurrentCreate } from './refusals.ts';
import type { CatalogDb, LocationRow } from './schema.ts';

async function stateOf(db: CatalogDb, location: Location): Promise<LocationRow['state'] | undefined> {
  const row = await db.selectFrom('locations').select('state').where('location', '=', location).executeTakeFirst();
  return row?.state;
}

export async function isLocationFresh(db: CatalogDb, location: Location): Promise<boolean> {
  return (await stateOf(db, location)) === undefined;
}

/** A place that was fresh when the caller chose it and is used now went to a concurrent create. */
export async function claimFresh(db: CatalogDb, location: Location, ref: TableRef): Promise<void> {
  if (!(await isLocationFresh(db, location))) throw concurrentCreate(ref);
  await db.insertInto('locations').values({ location, state: 'live' }).execute();
}

/** Also takes a retired place. A discarded one is refused: its files are about to be removed. */
export async function claimForAdoption(db: CatalogDb, location: Location): Promise<void> {
  const state = await stateOf(db, location);
  switch (state) {
    case undefined:
      await db.insertInto('locations').values({ location, state: 'live' }).execute();
      return;
    case 'retired':
      await setState(db, location, 'live');
      return;
    case 'live':
      throw invalidInput('The location belongs to another table.');
    case 'discarded':
      throw invalidInput('The location belonged to a table that was dropped, and its files are being removed.');
  }
}

async function setState(db: CatalogDb, location: Location, state: LocationRow['state']): Promise<void> {
  await db.updateTable('locations').set({ state }).where('location', '=', location).execute();
}

/** Lets go of a place unless somebody else holds it: `discarded` if its files shall go, `retired` if they shall stay. */
export async function releaseLocation(
  db: CatalogDb,
  location: Location,
  state: 'discarded' | 'retired',
): Promise<void> {
  const holder = await db
    .selectFrom('tables')
    .select('location')
    .where('location', '=', location)
    .unionAll(db.selectFrom('creations').select('location').where('location', '=', location))
    .limit(1)
    .executeTakeFirst();
  if (holder === undefined) await setState(db, location, state);
}

export async function forgetDiscarded(db: CatalogDb, location: Location): Promise<void> {
  await db
    .updateTable('locations')
    .set({ state: 'retired' })
    .where('location', '=', location)
    .where('state', '=', 'discarded')
    .execute();
}

export async function discardedLocations(db: CatalogDb): Promise<readonly Location[]> {
  const rows = await db
    .selectFrom('locations')
    .select('location')
    .where('state', '=', 'discarded')
    .orderBy('location')
    .execute();
  return rows.map((row) => row.location);
}
