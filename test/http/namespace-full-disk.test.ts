/** What a disk that is full, or takes nothing, or a table that moves, leaves of a work of several steps: nothing only if it meets the first of them (P6). */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { writerMoved } from '#src/catalog/refusals.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { LancegateError, storageFull, storageUnavailable } from '#src/kernel/errors.ts';
import type { NamespacePath, ObjectName } from '#src/kernel/ids.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { dropNamespace } from '#src/operations/namespaces/drop-namespace.ts';
import { EmbeddedOwners } from '#src/table/table-owners.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const outer: NamespacePath = ['a' as ObjectName];
const inner: NamespacePath = [...outer, 'b' as ObjectName];

const full = storageFull(undefined, {});
const unavailable = storageUnavailable('the storage is read-only', undefined, {});

const moved = writerMoved({ namespace: outer, name: 't' as ObjectName });
const lost = new LancegateError('CatalogUnavailable', 'the catalog is not available');

for (const { step, refusal, kind, left } of [
  { step: 1, refusal: full, kind: 'StorageFull', left: 2 },
  { step: 2, refusal: full, kind: 'Internal', left: 1 },
  { step: 1, refusal: unavailable, kind: 'StorageUnavailable', left: 2 },
  { step: 2, refusal: unavailable, kind: 'Internal', left: 1 },
  { step: 1, refusal: lost, kind: 'CatalogUnavailable', left: 2 },
  { step: 2, refusal: lost, kind: 'Internal', left: 1 },
  { step: 1, refusal: moved, kind: 'WriterMoved', left: 2 },
  { step: 2, refusal: moved, kind: 'Internal', left: 1 },
] as const) {
  test(`a cascade that meets ${refusal.kind} at step ${step} is refused as ${kind}`, async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const catalog = await openSqliteCatalog(join(folder, 'catalog.sqlite'), { holder: { command: 'a test' } });
    t.after(() => catalog.close());
    for (const path of [outer, inner]) await catalog.createNamespace(path, {});
    let steps = 0;
    const failing = replacing(catalog, {
      dropNamespace: async (path: NamespacePath) => {
        steps += 1;
        if (steps === step) throw refusal;
        await catalog.dropNamespace(path);
      },
    });
    const drop = dropNamespace({ catalog: failing, owners: new EmbeddedOwners() }, () =>
      assert.fail('there are no tables'),
    );
    await assert.rejects(
      drop(
        { namespace: outer, mode: 'fail', behavior: 'cascade', mayDrop: () => true, dropped: () => {} },
        { signal: neverAborts },
      ),
      (error) => error instanceof LancegateError && error.kind === kind,
    );
    const found = await Promise.all([outer, inner].map((path) => catalog.findNamespace(path)));
    assert.equal(found.filter((namespace) => namespace !== undefined).length, left);
  });
}
