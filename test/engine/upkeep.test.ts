import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect, type Table as LanceTable } from '@lancedb/lancedb';
import { Int32, tableFromArrays, tableToIPC, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/source.ts';
import { compactionTag } from '#src/engine/lance/compaction-tag.ts';
import { LanceEngine } from '#src/engine/lance/lance-engine.ts';
import type { Dataset } from '#src/engine/port.ts';
import type { Location } from '#src/kernel/ids.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const location = 't.lance' as Location;
const numbers = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);
const rows = (from: number, count: number): IpcFile => {
  const id = vectorFromArray(numbers(from, count), new Int32());
  return Buffer.from(tableToIPC(tableFromArrays({ id: id.toArray() as Int32Array }), 'file')) as IpcFile;
};

interface Tidied {
  readonly engine: LanceEngine;
  readonly dataset: Dataset;
  readonly folder: string;
  outside(): Promise<LanceTable>;
}

/** An indexed fragment of 1,000 rows, and three of ten rows that no index covers. */
async function grownTable(t: TestContext): Promise<Tidied> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = new LanceEngine({
    root: folder,
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 24,
    metadataCacheBytes: 1 << 24,
  });
  const dataset = await engine.create(location, rows(0, 1_000), {});
  t.after(() => dataset.close());
  await dataset.createScalarIndex('id');
  for (const i of numbers(0, 3)) await dataset.append(rows(1_000 + 10 * i, 10));
  return { engine, dataset, folder, outside: async () => (await connect(folder)).openTable('t') };
}

const compact = { pruneBeforeMs: 0, leavesIndexes: true };

describe('putting the new fragments alone together (P8)', () => {
  test('leaves the index, what it covers and all versions as they are', async (t) => {
    const { dataset, outside } = await grownTable(t);
    let told = 0;
    const result = await dataset.optimize({ ...compact, onRewritten: () => told++ });
    assert.deepEqual(result, { removedFragments: 2, removedVersions: 0, removedBytes: 0 });
    assert.equal(told, 1);
    const table = await outside();
    const { numIndexedRows, numUnindexedRows } = (await table.indexStats('id_idx')) ?? {};
    assert.deepEqual([numIndexedRows, numUnindexedRows], [1_000, 30]);
    assert.equal((await table.listVersions())[0]?.version, 1);
    assert.equal(await table.countRows(), 1_030);
    assert.deepEqual(await (await table.tags()).list(), {});
  });

  test('finds what came later by itself, and the tags of others stay', async (t) => {
    const { dataset, outside } = await grownTable(t);
    await (await (await outside()).tags()).create('mine', 1);
    const onRewritten = (): void => {};
    await dataset.optimize({ ...compact, onRewritten });
    await dataset.append(rows(2_000, 10));
    await dataset.optimize({ ...compact, onRewritten });
    assert.equal((await dataset.layout()).fragments.length, 2);
    assert.deepEqual(Object.keys(await (await (await outside()).tags()).list()), ['mine']);
  });

  test('says nothing where there is nothing to put together, and no row that its index misses', async (t) => {
    const { dataset } = await grownTable(t);
    let told = 0;
    const onRewritten = () => told++;
    // The new fragments; the index, which misses them; both fragments, which are now alike.
    for (const _ of numbers(0, 3)) await dataset.optimize({ ...compact, onRewritten });
    assert.equal(told, 3);
    assert.equal((await dataset.layout()).fragments.length, 1);
    await dataset.optimize({ ...compact, onRewritten });
    assert.equal(told, 3);
  });

  test('is not stopped by a tag that a crash left, and start-up recovery removes one, torn or not', async (t) => {
    const { engine, dataset, folder, outside } = await grownTable(t);
    const tags = await (await outside()).tags();
    await tags.create(compactionTag, 1);
    assert.equal(await dataset.oldestTaggedAtMs(), undefined, 'it holds nothing up');
    await dataset.optimize({ ...compact, onRewritten: () => {} });
    assert.deepEqual(await tags.list(), {});
    await tags.create(compactionTag, 1);
    const { removedVersions } = await dataset.optimize({
      pruneBeforeMs: Date.now() + 60_000,
      leavesIndexes: false,
      onRewritten: () => {},
    });
    assert.ok(removedVersions > 0);
    assert.deepEqual(await tags.list(), {});

    const tornTag = join(folder, 't.lance/_refs/tags', `${compactionTag}.json`);
    mkdirSync(join(folder, 't.lance/_refs/tags'), { recursive: true });
    writeFileSync(tornTag, '');
    const acknowledgedVersion = await dataset.version();
    const { storageSession } = engine;
    await engine.recover({ location, branch: undefined, acknowledgedVersion, storageSession });
    assert.equal(existsSync(tornTag), false, readdirSync(join(folder, 't.lance/_refs/tags')).join());
  });
});

test('the layout shows each fragment, its deletions too', async (t) => {
  const { dataset } = await grownTable(t);
  const spec = { on: ['id'], whenMatchedUpdateAll: true, whenNotMatchedInsertAll: true } as const;
  await dataset.merge({ ...spec, whenNotMatchedBySourceDelete: false, useIndex: true }, rows(5, 7), undefined);
  const { rows: count, fragments, committedAtMs } = await dataset.layout();
  const versions = await dataset.versions();
  assert.equal(committedAtMs, versions.at(-1)?.committedAtMs);
  assert.equal(count, 1_030);
  assert.deepEqual(
    fragments.map((fragment) => [fragment.rows, fragment.deletedRows]),
    [
      [1_000, 7],
      [10, 0],
      [10, 0],
      [10, 0],
      [7, 0],
    ],
  );
});

test('an index that was dropped and built again is a plain one as before, and one of another name is not', async (t) => {
  const { dataset, outside } = await grownTable(t);
  assert.deepEqual((await dataset.layout()).indexes, [{ columns: ['id'], unindexedRows: 30, isPlain: true }]);
  await dataset.dropScalarIndex('id');
  assert.deepEqual((await dataset.layout()).indexes, []);
  await dataset.createScalarIndex('id');
  assert.deepEqual((await dataset.layout()).indexes, [{ columns: ['id'], unindexedRows: 0, isPlain: true }]);
  await dataset.dropScalarIndex('id');
  await (await outside()).createIndex('id', { name: 'mine' });
  await dataset.refresh();
  assert.deepEqual((await dataset.layout()).indexes, [{ columns: ['id'], unindexedRows: 0, isPlain: false }]);
});
