/**
 * Which table holds which location on storage. A location is given out once; a deregistered one may be adopted again. It is
 * released only when neither a table nor a creation holds it: a create that materialises a declared table writes to the
 * declared location, so both can hold it for a while.
 */
import { invalidInput } from '../../kernel/errors.ts';
import type { Location, TableRef } from '../../kernel/ids.ts';
import { overlap, type Spelling } from '../../kernel/places.ts';
import type { KnownPlace } from '../port.ts';
import type { CatalogDb, LocationRow } from './catalog-db.ts';
import { tablePathOf, tableRefOf } from './full-path.ts';
import { concurrentCreate } from './refusals.ts';

async function stateOf(db: CatalogDb, location: Location): Promise<LocationRow['state'] | undefined> {
  const row = await db.selectFrom('locations').select('state').where('location', '=', location).executeTakeFirst();
  return row?.state;
}

export async function isLocationFresh(db: CatalogDb, location: Location): Promise<boolean> {
  return (await stateOf(db, location)) === undefined;
}

/** A location that was fresh when the caller chose it and is used now went to a concurrent create. */
export async function claimFresh(db: CatalogDb, location: Location, ref: TableRef): Promise<void> {
  if (!(await isLocationFresh(db, location))) throw concurrentCreate(ref);
  await db
    .insertInto('locations')
    .values({ location, state: 'live', owner: tablePathOf(ref) })
    .execute();
}

/**
 * Also takes a retired location. It refuses a held one, and one with a held location inside or around it, since a drop of
 * either would destroy the other; and a discarded one, whose files are about to be removed.
 */
export async function claimForAdoption(
  db: CatalogDb,
  location: Location,
  spelling: Spelling,
  ref: TableRef,
): Promise<void> {
  const known = await placesAt(db, location, spelling);
  for (const { state } of known) requireLeft(state);
  const owner = tablePathOf(ref);
  if (known.some((place) => place.location === location)) {
    await db.updateTable('locations').set({ state: 'live', owner }).where('location', '=', location).execute();
  } else {
    await db.insertInto('locations').values({ location, state: 'live', owner }).execute();
  }
}

function requireLeft(state: KnownPlace['state']): void {
  switch (state) {
    case 'left':
      return;
    case 'held':
      throw invalidInput('location: it belongs to another table, or lies inside or around one that does');
    case 'discarded':
      throw invalidInput('location: it belonged to a table that was dropped, and its files are being removed');
  }
}

/** Reads three ranges of one index; with `loose` spelling, all locations. */
export async function placesAt(db: CatalogDb, location: Location, spelling: Spelling): Promise<readonly KnownPlace[]> {
  const rows = await db
    .selectFrom('locations')
    .selectAll()
    .$if(spelling === 'exact', (query) =>
      query.where((row) =>
        row.or([
          row('location', 'in', [location, ...around(location)]),
          row.and([row('location', '>', `${location}/` as Location), row('location', '<', pastInside(location))]),
        ]),
      ),
    )
    .orderBy('location')
    .execute();
  return rows.filter((row) => overlap(row.location, location, spelling)).map(placeOf);
}

/** Every folder above it. */
const around = (location: Location): readonly Location[] =>
  [...location.matchAll(/\//g)].map(({ index }) => location.slice(0, index) as Location);

/** The character after the slash: locations compare by their bytes. */
const pastInside = (location: Location): Location => `${location}0` as Location;

const stateNames = { live: 'held', discarded: 'discarded', retired: 'left' } as const;

const placeOf = ({ location, state, owner }: LocationRow): KnownPlace => ({
  location,
  state: stateNames[state],
  owner: owner === null ? undefined : tableRefOf(owner),
});

async function setState(db: CatalogDb, location: Location, state: LocationRow['state']): Promise<void> {
  await db.updateTable('locations').set({ state }).where('location', '=', location).execute();
}

/** Releases a location unless another table holds it: `discarded` if its files shall go, `retired` if they shall stay. */
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
