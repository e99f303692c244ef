/** Fragments that were chosen one by one are put together; no row changes by it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import {
  Field,
  FixedSizeList,
  Float32,
  Int32,
  LargeBinary,
  RecordBatch,
  Schema,
  Table,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import type { IpcFile } from '#src/arrow/source.ts';
import { LanceEngine } from '#src/engine/lance/lance-engine.ts';
import { MovedRows } from '#src/engine/lance/moved-rows.ts';
import type { Dataset } from '#src/engine/port.ts';
import { addressesIn } from '#src/engine/port.ts';
import type { BranchName, Location } from '#src/kernel/ids.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { openStored } from '#test/http/stored.ts';
import { numbersFrom, wideRows, wideStream } from '#test/http/wide-table.ts';

const location = 't.lance' as Location;
const upsert = upsertOn('id');
const keyed = (from: number, count: number, text: string): IpcFile =>
  ipcFile(
    new Table({
      id: vectorFromArray(numbersFrom(from, from + count), new Int32()),
      text: vectorFromArray(
        numbersFrom(from, from + count).map((id) => `${text} ${id}`),
        new Utf8(),
      ),
    }),
  );

const engineIn = (root: string): LanceEngine =>
  new LanceEngine({
    root,
    rootOptions: {},
    scratchFolder: join(root, 'scratch'),
    indexCacheBytes: 1 << 24,
    metadataCacheBytes: 1 << 24,
  });

/** A fragment of 1,000 rows in the index, and four of ten rows that came later; some of each are deleted. */
async function grownTable(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = engineIn(folder);
  const dataset = await engine.create(location, keyed(0, 1_000, 'first'), {});
  t.after(() => dataset.close());
  await dataset.createScalarIndex('id');
  for (const i of numbersFrom(0, 4)) await dataset.append(keyed(1_000 + 10 * i, 10, 'later'));
  await dataset.merge(upsert, keyed(995, 10, 'updated'), undefined);
  return { engine, dataset, folder };
}

const idsOf = async (dataset: Dataset): Promise<number[]> =>
  (await dataset.layout()).fragments.map(({ id }) => id ?? Number.NaN);

async function contentOf(dataset: Dataset): Promise<unknown[]> {
  const columns = ['id', 'text'].map((name) => ({ name, expression: name }));
  const files = await Array.fromAsync(dataset.select(columns, undefined));
  return files.flatMap((file) => rowsOf(file)).sort((a, b) => Number(a.id) - Number(b.id));
}

describe('chosen fragments are put together (P8)', () => {
  test('the others stay where they are, and every row is as it was (P1)', async (t) => {
    const { dataset } = await grownTable(t);
    const before = await contentOf(dataset);
    const version = await dataset.version();
    assert.deepEqual(await idsOf(dataset), [0, 1, 2, 3, 4, 5]);
    assert.equal(await dataset.rewriteFragments([1, 2, 4, 5]), 3);
    assert.equal(await dataset.version(), version + 1);
    assert.deepEqual(await idsOf(dataset), [0, 3, 6]);
    const { fragments, rows } = await dataset.layout();
    assert.deepEqual([rows, fragments.at(-1)], [1_040, { id: 6, rows: 35, deletedRows: 0 }]);
    assert.deepEqual(await contentOf(dataset), before);
  });

  test('merges through the index find the rows that moved, those that were in it too (P2, P4)', async (t) => {
    const { dataset } = await grownTable(t);
    await dataset.createScalarIndex('id');
    await dataset.rewriteFragments([1, 2, 5]);
    const counts = await dataset.merge(upsert, keyed(990, 60, 'again'), undefined);
    assert.deepEqual([counts.numUpdatedRows, counts.numInsertedRows], [50, 10]);
    const ids = (await contentOf(dataset)).map((row) => (row as { id: number }).id);
    assert.deepEqual(ids, numbersFrom(0, 1_050));
  });

  test('what did it is known to have changed no row, but not for whoever takes its place', async (t) => {
    const { engine, dataset } = await grownTable(t);
    const version = await dataset.version();
    await dataset.rewriteFragments([1, 2]);
    assert.equal(await dataset.rowChange(version, version + 1), 'none');
    assert.equal(await dataset.rowChange(version - 1, version + 1), 'some');
    assert.equal(await (await engine.open({ location })).rowChange(version, version + 1), 'none');
    await engine.remove(location);
    const other = await engine.create(location, keyed(0, 10, 'other'), {});
    for (let i = 1; i <= version; i += 1) await other.append(keyed(10 * i, 10, 'other'));
    assert.equal(await other.rowChange(version, version + 1), 'some');
  });

  test('nor hides what somebody else commits at the same time', async (t) => {
    const { dataset, folder } = await grownTable(t);
    const version = await dataset.version();
    await (await (await connect(folder)).openTable('t')).delete('id < 10');
    await dataset.rewriteFragments([1, 2]);
    assert.equal(await dataset.version(), version + 2);
    assert.equal(await dataset.rowChange(version, version + 2), 'some');
    assert.equal(await dataset.rowChange(version + 1, version + 2), 'none');
    assert.equal(await dataset.countRows(), 1_030);
  });

  test('nor undoes what somebody else does to the same rows at the same time (P1)', async (t) => {
    const { dataset, folder } = await grownTable(t);
    const outside = await (await connect(folder)).openTable('t');
    await outside.delete('id = 1010');
    await outside.update({ where: 'id = 1011', values: { text: 'theirs' } });
    await dataset.rewriteFragments([1, 2, 3]);
    await dataset.refresh();
    const rows = new Map((await contentOf(dataset)).map((row) => [(row as { id: number }).id, row]));
    assert.deepEqual([rows.size, rows.has(1_010)], [1_039, false]);
    assert.deepEqual({ ...(rows.get(1_011) as object) }, { id: 1_011, text: 'theirs' });
    assert.equal(await dataset.countRows(), 1_039);
  });

  test('on a branch it says nothing of what takes the place of the branch (P2)', async (t) => {
    const { engine, dataset } = await grownTable(t);
    const branch = 'dev' as BranchName;
    const open = async (): Promise<Dataset> => {
      await dataset.createBranch(branch, { branch: undefined, version: undefined });
      return engine.open({ location, branch });
    };
    const first = await open();
    const version = await first.version();
    await first.rewriteFragments([1, 2]);
    assert.equal(await first.rowChange(version, version + 1), 'none');
    first.close();
    await dataset.deleteBranch(branch);
    const second = await open();
    assert.equal(await second.version(), version);
    await second.append(keyed(5_000, 10, 'second'));
    assert.equal(await second.rowChange(version, version + 1), 'some');
  });

  test('an update by somebody else is a change', async (t) => {
    const { dataset, folder } = await grownTable(t);
    const version = await dataset.version();
    await (await (await connect(folder)).openTable('t')).update({ where: 'id < 10', valuesSql: { id: 'id' } });
    await dataset.refresh();
    assert.equal(await dataset.rowChange(version, version + 1), 'some');
  });

  test('none are none', async (t) => {
    const { dataset } = await grownTable(t);
    const version = await dataset.version();
    assert.equal(await dataset.rewriteFragments([]), 0);
    assert.equal(await dataset.version(), version);
  });

  test('of a branch leaves the table alone', async (t) => {
    const { engine, dataset } = await grownTable(t);
    const branch = 'a/b' as BranchName;
    await dataset.createBranch(branch, { branch: undefined, version: undefined });
    const onBranch = await engine.open({ location, branch });
    await onBranch.append(keyed(2_000, 10, 'branch'));
    const before = await contentOf(onBranch);
    assert.equal(await onBranch.rewriteFragments([1, 2, 3, 6]), 3);
    assert.deepEqual(await contentOf(onBranch), before);
    assert.deepEqual(await idsOf(dataset), [0, 1, 2, 3, 4, 5]);
    assert.equal(await dataset.countRows(), 1_040);
  });
});

test('rows of every type move bit for bit (P1)', async (t) => {
  const service = await startTestService(t.after.bind(t), { AUTO_MAINTENANCE: 'false' });
  await service.post('/v1/table/t/create', wideStream([wideRows(numbersFrom(0, 40))], 'none'));
  for (const from of [10, 30, 50]) {
    const rows = wideStream([wideRows(numbersFrom(from, from + 15), 3)], 'none');
    assert.equal((await service.post('/v1/table/t/merge_insert?on=n', rows)).status, 200);
  }
  const sorted = async () => {
    const stored: Record<string, unknown[]> = await (await openStored(service.tablesFolder, 't')).rows();
    const order = (stored.n ?? []).map((n, row) => ({ n: n as bigint, row })).sort((a, b) => Number(a.n - b.n));
    return Object.fromEntries(Object.entries(stored).map(([name, of]) => [name, order.map(({ row }) => of[row])]));
  };
  const before = await sorted();
  const dataset = await engineIn(service.tablesFolder).open({ location });
  const ids = await idsOf(dataset);
  assert.equal(await dataset.rewriteFragments(ids), 3);
  assert.deepEqual(await sorted(), before);
  dataset.close();
});

describe('rows are left where they are', () => {
  const idsIn = async (t: TestContext, table: Table, storageOptions: Record<string, string> = {}) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const dataset = await engineIn(folder).create(location, ipcFile(table), storageOptions);
    t.after(() => dataset.close());
    const [{ id } = {}] = (await dataset.layout()).fragments;
    return id;
  };
  const numbers = vectorFromArray([1, 2], new Int32());

  test('where they have identifiers of their own, which would tell of an update', async (t) => {
    const table = new Table({ id: numbers });
    assert.equal(await idsIn(t, table), 0);
    assert.equal(await idsIn(t, table, { new_table_enable_stable_row_ids: 'true' }), undefined);
  });

  test('where a column holds blobs', async (t) => {
    const blobs = (metadata: Map<string, string>) => {
      const values = vectorFromArray([Buffer.from('a'), Buffer.from('b')], new LargeBinary());
      const [batch] = new Table({ id: numbers, blob: values }).batches;
      const of = new Field('blob', new LargeBinary(), true, metadata);
      return new Table([new RecordBatch(new Schema([new Field('id', new Int32(), true), of]), batch!.data)]);
    };
    const options = { new_table_data_storage_version: '2.1' };
    assert.equal(await idsIn(t, blobs(new Map()), options), 0);
    assert.equal(await idsIn(t, blobs(new Map([['lance-encoding:blob', 'true']])), options), undefined);
  });

  test('where no column is fit to be set to itself', async (t) => {
    const type = new FixedSizeList(1, new Field('item', new Float32(), true));
    assert.equal(await idsIn(t, new Table({ vector: vectorFromArray([[1], [2]], type) })), undefined);
    assert.equal(await idsIn(t, new Table({ 'a b': numbers })), undefined);
  });
});

test('the addresses of neighbouring fragments are one range', () => {
  assert.equal(addressesIn([7]), `(_rowaddr >= ${7n << 32n} AND _rowaddr < ${8n << 32n})`);
  assert.equal(
    addressesIn([9, 2, 1, 3]),
    `(_rowaddr >= ${1n << 32n} AND _rowaddr < ${4n << 32n}) OR (_rowaddr >= ${9n << 32n} AND _rowaddr < ${10n << 32n})`,
  );
});

test('what is known of moved rows is bounded, and the newest is kept (P7)', () => {
  const moved = new MovedRows();
  for (let i = 0; i < 5_000; i += 1) moved.remember(`transaction ${i}`);
  assert.deepEqual(
    [moved.has('transaction 4999'), moved.has('transaction 904'), moved.has('transaction 903')],
    [true, true, false],
  );
});
