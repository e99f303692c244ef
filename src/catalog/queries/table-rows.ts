import type { NamespacePath, ObjectName, TableId, TableRef } from '../../kernel/ids.ts';
import type { ListedTable, TablePageRequest, TableRecord } from '../port.ts';
import {
  boundsBelow,
  type CatalogDb,
  type FullPath,
  namespacePathOf,
  propertiesFromJson,
  propertiesToJson,
  type TableRow,
  tablePathOf,
  tableRefOf,
} from './catalog-db.ts';
import { requireNamespace } from './namespaces.ts';

export const recordOf = (row: TableRow): TableRecord => ({
  id: row.id,
  ref: tableRefOf(row.path),
  location: row.location,
  state: row.state,
  properties: propertiesFromJson(row.properties),
  storageOptions: propertiesFromJson(row.storage_options),
});

export const rowOf = (record: TableRecord): TableRow => ({
  id: record.id,
  path: tablePathOf(record.ref),
  namespace: namespacePathOf(record.ref.namespace),
  name: record.ref.name,
  location: record.location,
  state: record.state,
  properties: propertiesToJson(record.properties),
  storage_options: propertiesToJson(record.storageOptions),
});

export async function findTable(db: CatalogDb, ref: TableRef): Promise<TableRecord | undefined> {
  const row = await db.selectFrom('tables').selectAll().where('path', '=', tablePathOf(ref)).executeTakeFirst();
  return row && recordOf(row);
}

export async function listTables(
  db: CatalogDb,
  namespace: NamespacePath,
  { after, limit, includeDeclared, includeBelow = false }: TablePageRequest,
): Promise<readonly ListedTable[]> {
  await requireNamespace(db, namespace);
  const at = namespacePathOf(namespace);
  const { from, to } = boundsBelow(at);
  const cursor = includeBelow ? 'path' : 'name';
  const rows = await db
    .selectFrom('tables')
    .selectAll()
    .$if(!includeDeclared, (query) => query.where('state', '=', 'created'))
    .$if(!includeBelow, (query) => query.where('namespace', '=', at))
    .$if(includeBelow && namespace.length > 0, (query) => query.where('path', '>', from).where('path', '<', to))
    .$if(after !== undefined, (query) => query.where(cursor, '>', after as ObjectName & FullPath))
    .orderBy(cursor)
    .limit(limit)
    .execute();
  return rows.map((row) => ({ ...recordOf(row), cursor: row[cursor] }));
}

export async function insertTable(db: CatalogDb, record: TableRecord): Promise<void> {
  await db.insertInto('tables').values(rowOf(record)).execute();
}

export async function deleteTable(db: CatalogDb, id: TableId): Promise<void> {
  await db.deleteFrom('tables').where('id', '=', id).execute();
}
