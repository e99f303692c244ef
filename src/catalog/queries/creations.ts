/**
 * Creates under way. A reservation holds a name and a location while files are written outside any transaction; while it
 * stands no one else can take the name, so at publication the name has what the creator saw there, or nothing.
 */
import type { Location, Properties, TableId, TableRef } from '../../kernel/ids.ts';
import type { Creation, Publication, TableRecord } from '../port.ts';
import type { CatalogDb, CreationRow } from './catalog-db.ts';
import { namespacePathOf, tablePathOf, tableRefOf } from './full-path.ts';
import { insertAnswers } from './idempotency.ts';
import { claimFresh, releaseLocation } from './locations.ts';
import { requireNamespace } from './namespaces.ts';
import { concurrentCreate } from './refusals.ts';
import { deleteTable, findTable, insertTable } from './table-rows.ts';
import { insertTransactions } from './transactions.ts';

const creationOf = (row: CreationRow): Creation => ({
  id: row.id,
  ref: tableRefOf(row.path),
  location: row.location,
});

export async function findCreationId(db: CatalogDb, ref: TableRef): Promise<string | undefined> {
  const row = await db.selectFrom('creations').select('id').where('path', '=', tablePathOf(ref)).executeTakeFirst();
  return row?.id;
}

export async function unfinishedCreations(db: CatalogDb): Promise<readonly Creation[]> {
  const rows = await db.selectFrom('creations').selectAll().orderBy('path').execute();
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
  if (!isDeclaredPlace(seen, location)) await claimFresh(db, location, ref);
  await db
    .insertInto('creations')
    .values({ id, path: tablePathOf(ref), namespace: namespacePathOf(ref.namespace), location })
    .execute();
  return creation;
}

/** Clients were given the location of a declared table, so the files may go there. One with data keeps its own. */
const isDeclaredPlace = (table: TableRecord | undefined, location: Location): boolean =>
  table?.state === 'declared' && table.location === location;

export async function publishCreation(
  db: CatalogDb,
  creation: Creation,
  publication: Publication,
  id: TableId,
): Promise<TableRecord> {
  const reserved = await takeCreation(db, creation);
  if (reserved === undefined) {
    await requireNamespace(db, creation.ref.namespace);
    throw concurrentCreate(creation.ref);
  }
  const { ref, location } = reserved;
  const previous = await findTable(db, ref);
  const record: TableRecord = {
    id,
    ref,
    location,
    state: 'created',
    properties: publication.properties ?? inheritedProperties(previous),
    storageOptions: publication.storageOptions,
  };
  await replaceTable(db, previous, record);
  await insertTransactions(db, [{ ...publication.transaction, tableId: id, ref }]);
  if (publication.answer !== undefined) await insertAnswers(db, [publication.answer]);
  return record;
}

async function takeCreation(db: CatalogDb, creation: Creation): Promise<Creation | undefined> {
  const row = await db.deleteFrom('creations').where('id', '=', creation.id).returningAll().executeTakeFirst();
  return row && creationOf(row);
}

const inheritedProperties = (previous: TableRecord | undefined): Properties =>
  previous?.state === 'declared' ? previous.properties : {};

/** The old location is released last, when the rows show whether the new table has the same one. */
async function replaceTable(db: CatalogDb, previous: TableRecord | undefined, record: TableRecord): Promise<void> {
  if (previous !== undefined) await deleteTable(db, previous.id);
  await insertTable(db, record);
  if (previous !== undefined) await releaseLocation(db, previous.location, 'discarded');
}

/** A creation that was published or abandoned before is left as it is. */
export async function abandonCreation(db: CatalogDb, creation: Creation): Promise<void> {
  const reserved = await takeCreation(db, creation);
  if (reserved !== undefined) await releaseLocation(db, reserved.location, 'discarded');
}
