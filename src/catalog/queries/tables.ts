/** This changes which tables there are, creates apart: those are in `creations.ts`. */
import { isDeepStrictEqual } from 'node:util';
import type { TableId, TableRef } from '../../kernel/ids.ts';
import type { Adoption, DroppedFiles, TableRecord, TableState } from '../port.ts';
import { concurrentCreate, tableNotFound } from '../refusals.ts';
import { type CatalogDb, namespacePathOf, tablePathOf } from './catalog-db.ts';
import { claimForAdoption, claimFresh, findCreationId, letGo, locationsAt, requireFreeName } from './creations.ts';
import { deleteTable, findTable, insertTable } from './table-rows.ts';

type NewTable = Pick<TableRecord, 'id' | 'ref' | 'location' | 'properties'>;

export async function declareTable(db: CatalogDb, table: NewTable): Promise<TableRecord> {
  await requireFreeName(db, table.ref);
  await claimFresh(db, table.location, table.ref);
  return insertNew(db, table, 'declared');
}

export async function registerTable(db: CatalogDb, id: TableId, adoption: Adoption): Promise<TableRecord> {
  const { ref, location, properties, spelling, seen, replaces } = adoption;
  // The caller checked the rights on the owners that it saw, and the right to take the name.
  if (!isDeepStrictEqual(await locationsAt(db, location, spelling), seen)) throw concurrentCreate(ref);
  if (replaces !== undefined && (await findTable(db, ref))?.id !== replaces) throw concurrentCreate(ref);
  if (replaces !== undefined) await removeTable(db, ref, 'left');
  await requireFreeName(db, ref);
  await claimForAdoption(db, location, spelling, ref);
  return insertNew(db, { id, ref, location, properties }, 'created');
}

async function insertNew(db: CatalogDb, table: NewTable, state: TableState): Promise<TableRecord> {
  const record: TableRecord = { ...table, state, storageOptions: {} };
  await insertTable(db, record);
  return record;
}

/** What was recorded of transactions keeps the name of its time; write intents are looked for by the table's present one. */
export async function renameTable(db: CatalogDb, from: TableRef, to: TableRef): Promise<TableRecord> {
  const record = await findTable(db, from);
  if (record === undefined) throw tableNotFound(from);
  if ((await findCreationId(db, from)) !== undefined) throw concurrentCreate(from);
  await requireFreeName(db, to);
  const path = tablePathOf(to);
  const namespace = namespacePathOf(to.namespace);
  await db.updateTable('tables').set({ path, namespace, name: to.name }).where('id', '=', record.id).execute();
  await db.updateTable('locations').set({ owner: path }).where('location', '=', record.location).execute();
  await db.updateTable('idempotency_keys').set({ table_path: path }).where('table_id', '=', record.id).execute();
  return { ...record, ref: to };
}

export async function removeTable(db: CatalogDb, ref: TableRef, files: DroppedFiles): Promise<TableRecord> {
  const record = await findTable(db, ref);
  if (record === undefined) throw tableNotFound(ref);
  await deleteTable(db, record.id);
  await letGo(db, record, files);
  return record;
}
