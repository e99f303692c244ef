/** Databases are the namespaces of the root, and those that were dropped. */
import type { NamespacePath, ObjectName } from '../../kernel/ids.ts';
import { type CatalogDb, insertable, namespacePathOf } from './catalog-db.ts';

/** Remembers the namespace at this path, if it is one of the root. */
export async function noteDatabase(db: CatalogDb, path: NamespacePath): Promise<void> {
  const [name, ...others] = path;
  if (name !== undefined && others.length === 0) await insert(db, [name]);
}

const insert = (db: CatalogDb, names: readonly ObjectName[]) =>
  db
    .insertInto('databases')
    .values(names.map((name) => ({ name })))
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute();

/** An older replica that makes a namespace does not note it. */
export async function isDatabase(db: CatalogDb, name: ObjectName): Promise<boolean> {
  const found = await db
    .selectFrom('databases')
    .select('name')
    .where('name', '=', name)
    .unionAll(
      db
        .selectFrom('namespaces')
        .select('name')
        .where('path', '=', namespacePathOf([name])),
    )
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

export async function noteDatabases(db: CatalogDb): Promise<readonly ObjectName[]> {
  const rows = await db
    .selectFrom('namespaces')
    .select('name')
    .where('parent', '=', namespacePathOf([]))
    .where('name', 'not in', db.selectFrom('databases').select('name'))
    .orderBy('name')
    .execute();
  const names = rows.map(({ name }) => name as ObjectName);
  for (const some of insertable(names)) await insert(db, some);
  return names;
}
