import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect, type Table as LanceTable } from '@lancedb/lancedb';
import { Int32, tableFromArrays, tableToIPC, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import type { Layout } from '#src/engine/port/upkeep.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex, dropIndex } from '#test/fixtures/create-index.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const coverage = (indexes: Layout['indexes']) =>
  indexes.map(({ columns, unindexedRows, isPlain }) => ({ columns, unindexedRows, isPlain }));

const location = 't.lance' as Location;
const numbers = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);
const rows = (from: number, count: number): IpcFile => {
  const id = vectorFromArray(numbers(from, count), new Int32());
  return Buffer.from(tableToIPC(tableFromArrays({ id: id.toArray() as Int32Array }), 'file')) as IpcFile;
};

interface GrownTable {
  readonly engine: LanceEngine;
  readonly dataset: Awaited<ReturnType<LanceEngine['open']>>;
  readonly folder: string;
  outside(): Promise<LanceTable>;
}

/** An indexed fragment of 1,000 rows, and three of ten rows that no index covers. */
async function grownTable(t: TestContext): Promise<GrownTable> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = new LanceEngine({
    root: folder,
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 24,
    metadataCacheBytes: 1 << 24,
  });
  const dataset = await createDataset(engine, location, rows(0, 1_000), {});
  t.after(() => dataset.close());
  await createIndex(dataset, 'id');
  for (const i of numbers(0, 3)) await appendTo(dataset, rows(1_000 + 10 * i, 10));
  return { engine, dataset, folder, outside: async () => (await connect(folder)).openTable('t') };
}

describe('the engine compacts a branch that nothing else can (P8)', () => {
  test('and brings indexes up to date, but removes no version', async (t) => {
    const { dataset, outside } = await grownTable(t);
    assert.equal((await dataset.compact({ isToRead: false })).removedFragments, 2);
    const table = await outside();
    assert.equal((await table.indexStats('id_idx'))?.numUnindexedRows, 0);
    assert.equal((await table.listVersions())[0]?.version, 1);
    assert.equal(await table.countRows(), 1_030);
  });
});

describe('an index is built in a shadow (P8)', () => {
  test('while writers go on, whose rows merges find all the same (P2)', async (t) => {
    const { engine, dataset, outside } = await grownTable(t);
    const writer = await engine.open({ location });
    const prepared = await dataset.prepareIndex(btreeOn('id'));
    const before = await dataset.version();
    await appendTo(writer, rows(2_000, 10));
    await mergeInto(writer, upsertOn('id'), rows(995, 10));
    await (await outside()).delete('id = 7');
    await dataset.refresh();
    assert.equal(await dataset.version(), before + 3, 'nothing of it is visible');
    assert.ok(isMade(await prepared.commit()));
    prepared.discard();
    assert.equal(await dataset.version(), before + 4);
    const statistics = await (await outside()).indexStats('id_idx');
    assert.deepEqual([statistics?.numIndexedRows, statistics?.numUnindexedRows], [1_019, 20]);
    const counts = await mergeInto(dataset, upsertOn('id'), rows(0, 3_000));
    assert.deepEqual([counts.numUpdatedRows, counts.numInsertedRows], [1_039, 3_000 - 1_039]);
    assert.equal((await (await outside()).listIndices()).length, 1);
  });

  test('and committed behind another program that commits at that moment', async (t) => {
    const { dataset, outside } = await grownTable(t);
    const prepared = await dataset.prepareIndex(btreeOn('id'));
    const before = await dataset.version();
    await (await outside()).delete('id = 7');
    assert.ok(isMade(await prepared.commit()), 'the dataset has not seen that');
    prepared.discard();
    assert.equal(await dataset.version(), before + 2);
    assert.equal(await dataset.countRows(), 1_029);
    assert.equal((await (await outside()).indexStats('id_idx'))?.numUnindexedRows, 0);
  });

  test('and covers only what is left where another program has restored an older version', async (t) => {
    const { engine, dataset, outside } = await grownTable(t);
    const table = await outside();
    const prepared = await dataset.prepareIndex(btreeOn('id'));
    await table.checkout(2);
    await table.restore();
    await dataset.refresh();
    const before = await dataset.version();
    assert.ok(isMade(await prepared.commit()));
    prepared.discard();
    assert.equal(await dataset.version(), before + 1);
    await appendTo(await engine.open({ location }), rows(5_000, 30)); // in a fragment whose id one had that is gone
    await dataset.refresh();
    assert.equal(await dataset.countRows(), 1_030);
    const statistics = await (await outside()).indexStats('id_idx');
    assert.deepEqual([statistics?.numIndexedRows, statistics?.numUnindexedRows], [1_000, 30]);
    assert.equal((await (await outside()).query().where('id = 5005').toArray()).length, 1);
  });

  test('of a branch, and readers of the branch and of main use theirs', async (t) => {
    const { engine, dataset, outside } = await grownTable(t);
    const branch = 'dev' as BranchName;
    await dataset.branches.create(branch, { branch: undefined, version: undefined });
    const onBranch = await engine.open({ location, branch });
    await appendTo(onBranch, rows(2_000, 10));
    await createIndex(onBranch, 'id');
    assert.deepEqual(coverage((await onBranch.layout()).indexes), [
      { columns: ['id'], unindexedRows: 0, isPlain: true },
    ]);
    const dev = await (await (await outside()).branches()).checkout('dev');
    for (const id of [5, 1_005, 2_005]) assert.equal((await dev.query().where(`id = ${id}`).toArray()).length, 1);
    assert.equal((await (await outside()).query().where('id = 1005').toArray()).length, 1);
    assert.deepEqual(coverage((await dataset.layout()).indexes), [
      { columns: ['id'], unindexedRows: 30, isPlain: true },
    ]);
  });
});

test('the layout shows each fragment, its deletions too', async (t) => {
  const { dataset } = await grownTable(t);
  const spec = { on: ['id'], whenMatchedUpdateAll: true, whenNotMatchedInsertAll: true } as const;
  await mergeInto(dataset, { ...spec, whenNotMatchedBySourceDelete: false, useIndex: true }, rows(5, 7));
  const { rows: count, fragments } = await dataset.layout();
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
  const { dataset, folder, outside } = await grownTable(t);
  assert.deepEqual(coverage((await dataset.layout()).indexes), [{ columns: ['id'], unindexedRows: 30, isPlain: true }]);
  await dropIndex(folder, dataset, 'id');
  assert.deepEqual(coverage((await dataset.layout()).indexes), []);
  await createIndex(dataset, 'id');
  assert.deepEqual(coverage((await dataset.layout()).indexes), [{ columns: ['id'], unindexedRows: 0, isPlain: true }]);
  await dropIndex(folder, dataset, 'id');
  await (await outside()).createIndex('id', { name: 'mine' });
  await dataset.refresh();
  assert.deepEqual(coverage((await dataset.layout()).indexes), [{ columns: ['id'], unindexedRows: 0, isPlain: false }]);
});
