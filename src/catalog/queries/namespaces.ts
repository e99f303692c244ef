import { invalidInput } from '../../kernel/errors.ts';
import type { NamespacePath, ObjectName, Properties } from '../../kernel/ids.ts';
import type { MadeNamespace, NamespaceMode, NamespaceRecord, PageRequest } from '../port.ts';
import { namespaceAlreadyExists, namespaceNotEmpty, namespaceNotFound } from '../refusals.ts';
import {
  boundsBelow,
  type CatalogDb,
  type FullPath,
  namesOf,
  namespacePathOf,
  propertiesFromJson,
  propertiesToJson,
} from './catalog-db.ts';

export async function requireNamespace(db: CatalogDb, path: NamespacePath): Promise<void> {
  if ((await findNamespace(db, path)) === undefined) throw namespaceNotFound(path);
}

export async function findNamespace(db: CatalogDb, path: NamespacePath): Promise<NamespaceRecord | undefined> {
  const row = await db
    .selectFrom('namespaces')
    .select('properties')
    .where('path', '=', namespacePathOf(path))
    .executeTakeFirst();
  return row && { path, properties: propertiesFromJson(row.properties) };
}

export async function createNamespace(
  db: CatalogDb,
  path: NamespacePath,
  properties: Properties,
  mode: NamespaceMode = 'create',
): Promise<MadeNamespace> {
  const existing = await findNamespace(db, path);
  if (existing !== undefined && mode === 'create') throw namespaceAlreadyExists(path);
  if (existing !== undefined && mode === 'exist_ok') return { ...existing, isFound: true };
  const parent = path.slice(0, -1);
  await requireNamespace(db, parent);
  const changed = { properties: propertiesToJson(properties) };
  await db
    .insertInto('namespaces')
    .values({ path: namespacePathOf(path), parent: namespacePathOf(parent), name: path.at(-1) ?? '', ...changed })
    .onConflict((conflict) => conflict.column('path').doUpdateSet(changed))
    .execute();
  return { path, properties };
}

export async function listNamespaces(
  db: CatalogDb,
  parent: NamespacePath,
  page: PageRequest,
): Promise<readonly ObjectName[]> {
  await requireNamespace(db, parent);
  const rows = await db
    .selectFrom('namespaces')
    .select('name')
    .where('parent', '=', namespacePathOf(parent))
    .$call((query) => (page.after === undefined ? query : query.where('name', '>', page.after)))
    .orderBy('name')
    .limit(page.limit)
    .execute();
  return rows.map((row) => row.name as ObjectName);
}

export async function dropNamespace(db: CatalogDb, path: NamespacePath): Promise<void> {
  if (path.length === 0) throw invalidInput('The root namespace cannot be dropped.');
  await requireNamespace(db, path);
  const full = namespacePathOf(path);
  if (await isOccupied(db, full)) throw namespaceNotEmpty(path);
  await db.deleteFrom('namespaces').where('path', '=', full).execute();
}

async function isOccupied(db: CatalogDb, path: FullPath): Promise<boolean> {
  const occupant = await db
    .selectFrom('namespaces')
    .select('path')
    .where('parent', '=', path)
    .unionAll(db.selectFrom('tables').select('path').where('namespace', '=', path))
    .unionAll(db.selectFrom('creations').select('path').where('namespace', '=', path))
    .limit(1)
    .executeTakeFirst();
  return occupant !== undefined;
}

export async function namespacesUnder(db: CatalogDb, path: NamespacePath): Promise<readonly NamespacePath[]> {
  const full = namespacePathOf(path);
  const { from, to } = boundsBelow(full);
  const rows = await db
    .selectFrom('namespaces')
    .select('path')
    .$if(path.length > 0, (query) =>
      query.where((row) => row.or([row('path', '=', full), row.and([row('path', '>', from), row('path', '<', to)])])),
    )
    .orderBy('path')
    .execute();
  return rows.map((row) => namesOf(row.path)).sort((a, b) => b.length - a.length);
}
