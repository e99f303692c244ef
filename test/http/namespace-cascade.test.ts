/** What other requests do to a namespace while a cascade drops what is in it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { Location, NamespacePath, ObjectName, TableRef } from '#src/kernel/ids.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { dropNamespace } from '#src/operations/namespaces/drop-namespace.ts';
import { EmbeddedOwners } from '#src/table/table-owners.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const namespace: NamespacePath = ['a' as ObjectName];
const tableRef = (name: string): TableRef => ({ namespace, name: name as ObjectName });

/** A namespace with the tables `t1` to `t3`; `beforeDrop` runs before each is dropped. */
async function cascade(t: TestContext, beforeDrop: (parts: CascadeParts, name: string) => Promise<unknown>) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const catalog = await openSqliteCatalog(join(folder, 'catalog.sqlite'), { holder: { command: 'a test' } });
  t.after(() => catalog.close());
  await catalog.createNamespace(namespace, {});
  const declare = (name: string) => catalog.declareTable(tableRef(name), `a/${name}.lance` as Location, {});
  for (const name of ['t1', 't2', 't3']) await declare(name);
  const gone: string[] = [];
  const drop = dropNamespace({ catalog, owners: new EmbeddedOwners() }, async ({ table }) => {
    await beforeDrop({ declare, drop: (name) => catalog.dropTable(tableRef(name)) }, table.name);
    const { location, properties } = await catalog.dropTable(table);
    return { table, location, properties, storageOptions: {}, created: undefined };
  });
  const dropped = ({ name }: TableRef): void => void gone.push(name);
  const ending = drop(
    { namespace, mode: 'fail', behavior: 'cascade', mayDrop: () => true, dropped },
    { signal: neverAborts },
  );
  return { ending, gone, isThere: async () => (await catalog.findNamespace(namespace)) !== undefined };
}

interface CascadeParts {
  readonly declare: (name: string) => Promise<unknown>;
  readonly drop: (name: string) => Promise<unknown>;
}

test('a table that another request drops meanwhile does not end a cascade, and is not counted', async (t) => {
  const { ending, gone, isThere } = await cascade(t, async ({ drop }, name) =>
    name === 't2' ? drop(name) : undefined,
  );
  await ending;
  assert.deepEqual([gone, await isThere()], [['t1', 't3'], false]);
});

test('a cascade into a namespace that is filled meanwhile does not say that nothing was written (P6)', async (t) => {
  const { ending, gone, isThere } = await cascade(t, async ({ declare }, name) =>
    name === 't3' ? declare('t4') : undefined,
  );
  await assert.rejects(ending, (error) => error instanceof LancegateError && error.entry.written === 'unknown');
  assert.deepEqual([gone, await isThere()], [['t1', 't2', 't3'], true]);
});
