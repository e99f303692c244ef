import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect, type Table as LanceTable, Session } from '@lancedb/lancedb';
import { Int32, tableFromArrays, tableToIPC, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { optimize } from '#src/engine/lance/adapter/engine-upkeep.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { connectNative, type NativeTable } from '#src/engine/lance/native/native.ts';
import type { Dataset } from '#src/engine/port/engine.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { replacing } from '#test/fixtures/replacing.ts';
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

const nothingRemoved = { removedFragments: 0, removedVersions: 0, removedBytes: 0 };
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

  test('finds what came later by itself, and tags stay', async (t) => {
    const { dataset, outside } = await grownTable(t);
    await (await (await outside()).tags()).create('mine', 1);
    const onRewritten = (): void => {};
    await dataset.optimize({ ...compact, onRewritten });
    await dataset.append(rows(2_000, 10));
    await dataset.optimize({ ...compact, onRewritten });
    assert.equal((await dataset.layout()).fragments.length, 2);
    assert.deepEqual(Object.keys(await (await (await outside()).tags()).list()), ['mine']);
  });

  test('takes nothing away where there is nothing to put together', async (t) => {
    const { dataset } = await grownTable(t);
    const onRewritten = (): void => {};
    await dataset.optimize({ ...compact, onRewritten });
    assert.deepEqual(await dataset.optimize({ ...compact, onRewritten }), nothingRemoved);
    assert.equal((await dataset.versions())[0]?.version, 1);
    await dataset.append(rows(2_000, 10));
    assert.equal(await dataset.countRows(), 1_040);
  });

  test('of a branch leaves the table alone', async (t) => {
    const { engine, dataset } = await grownTable(t);
    const branch = 'a/b' as BranchName;
    await dataset.createBranch(branch, { branch: undefined, version: undefined });
    const onBranch = await engine.open({ location, branch });
    for (const i of numbers(0, 3)) await onBranch.append(rows(2_000 + 10 * i, 10));
    const { removedFragments } = await onBranch.optimize({ ...compact, onRewritten: () => {} });
    assert.equal(removedFragments, 5);
    assert.equal(await onBranch.countRows(), 1_060);
    await onBranch.append(rows(3_000, 10));
    await dataset.refresh();
    assert.equal((await dataset.layout()).fragments.length, 4);
    assert.equal(await dataset.countRows(), 1_030);
  });

  test('is tried again where the handle was pinned before the engine had begun', async (t) => {
    const { native, outside } = await nativeTable(t);
    let calls = 0;
    const pinned = Promise.withResolvers<void>();
    const table = replacing<NativeTable>(native, {
      optimize: async (...request) => {
        calls += 1;
        if (calls === 1) await pinned.promise;
        return native.optimize(...request);
      },
      checkout: async (version) => {
        await native.checkout(version);
        pinned.resolve();
      },
    });
    let told = 0;
    const { removedFragments } = await optimize(table, { ...compact, onRewritten: () => told++ });
    assert.deepEqual([calls, told, removedFragments], [2, 1, 2]);
    assert.equal(await (await outside()).countRows(), 1_030);
  });

  test('removes no version where the handle was pinned too late', async (t) => {
    const { native, outside } = await nativeTable(t);
    let ended: Promise<unknown> = Promise.resolve();
    const table = replacing<NativeTable>(native, {
      optimize: (...request) => {
        const running = native.optimize(...request);
        ended = running;
        return running;
      },
      checkout: async (version) => {
        await ended;
        await native.checkout(version);
      },
    });
    let told = 0;
    const result = await optimize(table, { ...compact, onRewritten: () => told++ });
    assert.deepEqual([told, result], [1, { removedFragments: 2, removedVersions: 0, removedBytes: 0 }]);
    assert.equal((await (await outside()).listVersions())[0]?.version, 1);
    assert.equal((await native.stats()).fragmentStats.numFragments, 2, 'the handle is at the newest version');
  });

  test('passes on what goes wrong, and the handle can be used again', async (t) => {
    const { native } = await nativeTable(t);
    const failure = new Error('the disk is gone');
    const table = replacing<NativeTable>(native, { optimize: () => Promise.reject(failure) });
    await assert.rejects(optimize(table, { ...compact, onRewritten: () => {} }), failure);
    await native.add(rows(2_000, 10), 'append');
    assert.equal(await native.countRows(), 1_040);
  });
});

/** The same table as the engine's own handle. */
async function nativeTable(t: TestContext) {
  const { folder, outside } = await grownTable(t);
  const connection = await connectNative(folder, {}, new Session(1n << 24n, 1n << 24n));
  return { native: await connection.openTable('t', []), outside };
}

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
