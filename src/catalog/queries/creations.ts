/**
 * These know the creates under way, and the locations of tables. A reservation holds a name and a location while files are written outside
 * any transaction. While it stands no other request can take the name, so at publication the name has what the creator saw
 * there, or nothing.
 *
 * A location is given out once; a deregistered one may be adopted again. It is released only when neither a table nor a
 * creation holds it: a create that materialises a declared table writes to the declared location, so both can hold it for a
 * while.
 */
import { invalidInput } from '../../kernel/errors.ts';
import { type Location, ownLocation, type TableId, type TableRef } from '../../kernel/ids.ts';
import { overlap, type Spelling } from '../../kernel/spelling.ts';
import type { Creation, DroppedFiles, KnownLocation, Publication, TableRecord } from '../port.ts';
import { concurrentCreate, tableAlreadyExists } from '../refusals.ts';
import { type CatalogDb, type CreationRow, namespacePathOf, tablePathOf, tableRefOf } from './catalog-db.ts';
import { findTransaction, insertAnswers, insertTransactions } from './commits.ts';
import { requireNamespace } from './namespaces.ts';
import { deleteTable, findTable, insertTable, rowOf } from './table-rows.ts';

const creationOf = (row: CreationRow): Creation => ({
  id: row.id,
  ref: tableRefOf(row.path),
  location: row.location,
});

export async function findCreationId(db: CatalogDb, ref: TableRef): Promise<string | undefined> {
  const row = await db.selectFrom('creations').select('id').where('path', '=', tablePathOf(ref)).executeTakeFirst();
  return row?.id;
}

export async function requireFreeName(db: CatalogDb, ref: TableRef): Promise<void> {
  await requireNamespace(db, ref.namespace);
  if ((await findTable(db, ref)) !== undefined) throw tableAlreadyExists(ref);
  if ((await findCreationId(db, ref)) !== undefined) throw concurrentCreate(ref);
}

export async function unfinishedCreations(db: CatalogDb, ref?: TableRef): Promise<readonly Creation[]> {
  const rows = await db
    .selectFrom('creations')
    .selectAll()
    .$call((query) => (ref === undefined ? query : query.where('path', '=', tablePathOf(ref))))
    .orderBy('path')
    .execute();
  return rows.map(creationOf);
}

export async function reserveCreation(
  db: CatalogDb,
  creation: Creation,
  existing: TableId | undefined,
): Promise<Creation> {
  const { id, ref, location } = creation;
  await requireNamespace(db, ref.namespace);
  if ((await findCreationId(db, ref)) !== undefined) throw concurrentCreate(ref);
  const seen = await findTable(db, ref);
  if (seen?.id !== existing) throw concurrentCreate(ref);
  // Clients were given the location of a declared table, so the files may go there. One with data keeps its own.
  if (!(seen?.state === 'declared' && seen.location === location)) await claimFresh(db, location, ref);
  await db
    .insertInto('creations')
    .values({ id, path: tablePathOf(ref), namespace: namespacePathOf(ref.namespace), location })
    .execute();
  return creation;
}

export async function publishCreation(
  db: CatalogDb,
  creation: Creation,
  publication: Publication,
  id: TableId,
): Promise<TableRecord> {
  const reserved = await takeCreation(db, creation);
  if (reserved === undefined) return publishedBefore(db, creation.ref, publication);
  const { ref, location } = reserved;
  const previous = await findTable(db, ref);
  const record: TableRecord = {
    id,
    ref,
    location,
    state: 'created',
    properties: publication.properties,
    storageOptions: publication.storageOptions,
  };
  // The old location is released last, when the rows show whether the new table has the same one.
  if (previous !== undefined) await deleteTable(db, previous.id);
  await insertTable(db, record);
  if (previous !== undefined) await letGo(db, previous, publication.replaced ?? 'discarded');
  await insertTransactions(db, [{ ...publication.transaction, tableId: id, ref }]);
  if (publication.answer !== undefined) await insertAnswers(db, [publication.answer]);
  return record;
}

/** The same publication may be repeated: its caller did not get the first answer. */
async function publishedBefore(
  db: CatalogDb,
  ref: TableRef,
  { transaction: { id } }: Publication,
): Promise<TableRecord> {
  await requireNamespace(db, ref.namespace);
  const [table, transaction] = [await findTable(db, ref), await findTransaction(db, id)];
  if (table === undefined || table.id !== transaction?.tableId) throw concurrentCreate(ref);
  return table;
}

/** Says whether it reserves the name. Writes the row, so it waits for a transaction that is about to end the reservation. */
export async function isReserved(db: CatalogDb, { id, location }: Creation): Promise<boolean> {
  const row = await db
    .updateTable('creations')
    .set({ location })
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

async function takeCreation(db: CatalogDb, creation: Creation): Promise<Creation | undefined> {
  const row = await db.deleteFrom('creations').where('id', '=', creation.id).returningAll().executeTakeFirst();
  return row && creationOf(row);
}

/** A creation that was published or abandoned before is left as it is. */
export async function abandonCreation(db: CatalogDb, creation: Creation): Promise<void> {
  const reserved = await takeCreation(db, creation);
  if (reserved !== undefined) await releaseLocation(db, reserved.location, 'discarded');
}

/** A location that was fresh when the caller chose it and is used now went to a concurrent create. */
export async function claimFresh(db: CatalogDb, location: Location, ref: TableRef): Promise<void> {
  const known = await db.selectFrom('locations').select('state').where('location', '=', location).executeTakeFirst();
  if (known !== undefined) throw concurrentCreate(ref);
  await db
    .insertInto('locations')
    .values({ location, state: 'live', owner: tablePathOf(ref) })
    .execute();
}

/**
 * Also takes a location that is left. It refuses a held one, and one with a held location inside or around it, since a drop of
 * either would destroy the other; and a discarded one, whose files are about to be removed.
 */
export async function claimForAdoption(
  db: CatalogDb,
  location: Location,
  spelling: Spelling,
  ref: TableRef,
): Promise<void> {
  const known = await locationsAt(db, location, spelling);
  for (const { state } of known) requireLeft(state);
  const owner = tablePathOf(ref);
  if (known.some((other) => other.location === location)) {
    await db.updateTable('locations').set({ state: 'live', owner }).where('location', '=', location).execute();
  } else {
    await db.insertInto('locations').values({ location, state: 'live', owner }).execute();
  }
}

function requireLeft(state: KnownLocation['state']): void {
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
export async function locationsAt(
  db: CatalogDb,
  location: Location,
  spelling: Spelling,
): Promise<readonly KnownLocation[]> {
  const rows = await db
    .selectFrom('locations')
    .selectAll()
    .$if(spelling === 'exact', (query) =>
      query.where((row) =>
        row.or([
          row('location', 'in', [location, ...around(location)]),
          // `0` comes right after the slash: locations compare by their bytes.
          row.and([
            row('location', '>', ownLocation(`${location}/`)),
            row('location', '<', ownLocation(`${location}0`)),
          ]),
        ]),
      ),
    )
    .orderBy('location')
    .execute();
  return rows
    .filter((row) => overlap(row.location, location, spelling))
    .map(({ location, state, owner }) => ({
      location,
      state: stateNames[state],
      owner: owner === null ? undefined : tableRefOf(owner),
    }));
}

/** Returns every folder above it. */
const around = (location: Location): readonly Location[] =>
  [...location.matchAll(/\//g)].map(({ index }) => ownLocation(location.slice(0, index)));

/** The names of states in the database, by those of the port. */
const stateNames = { live: 'held', discarded: 'discarded', retired: 'left' } as const;

/** The table is gone from the names. One that is only declared has no rows to bring back. */
export async function letGo(db: CatalogDb, record: TableRecord, files: DroppedFiles): Promise<void> {
  if (files === 'left') return releaseLocation(db, record.location, 'retired');
  if (files === 'discarded' || record.state === 'declared') return releaseLocation(db, record.location, 'discarded');
  const times = { dropped_at_ms: files.droppedAtMs, kept_until_ms: files.keptUntilMs };
  await db
    .insertInto('dropped_tables')
    .values({ ...rowOf(record), ...times })
    .execute();
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
  if (holder !== undefined) return;
  await db.updateTable('locations').set({ state }).where('location', '=', location).execute();
}

export async function forgetDiscarded(db: CatalogDb, location: Location): Promise<void> {
  await db
    .updateTable('locations')
    .set({ state: 'retired' })
    .where('location', '=', location)
    .where('state', '=', 'discarded')
    .execute();
}

export async function discardedLocations(db: CatalogDb, ref?: TableRef): Promise<readonly Location[]> {
  const rows = await db
    .selectFrom('locations')
    .select('location')
    .where('state', '=', 'discarded')
    .$call((query) => (ref === undefined ? query : query.where('owner', '=', tablePathOf(ref))))
    .orderBy('location')
    .execute();
  return rows.map((row) => row.location);
}
