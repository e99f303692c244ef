/** Fragments that were chosen one by one are compacted; no row changes by it. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { Field, Int32, LargeBinary, RecordBatch, Schema, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import { addressesIn } from '#src/engine/port/row-address.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { BranchName, Location, Properties } from '#src/kernel/ids.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { eventually } from '#test/http/eventually.ts';
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

/** A fragment of 1,000 rows in the index, and four of ten rows that came later; some of each are deleted. */
async function grownTable(t: TestContext, options: Properties = {}) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = engineIn(folder);
  const dataset = await createDataset(engine, location, keyed(0, 1_000, 'first'), options);
  t.after(() => dataset.close());
  await createIndex(dataset, 'id');
  for (const i of numbersFrom(0, 4)) await appendTo(dataset, keyed(1_000 + 10 * i, 10, 'later'));
  await mergeInto(dataset, upsert, keyed(995, 10, 'updated'));
  return { engine, dataset, folder };
}

/** As maintenance does, with what happens between the two steps. */
async function move(
  dataset: Dataset,
  ids: readonly number[],
  meanwhile: () => Promise<unknown> = async () => undefined,
): Promise<number | undefined> {
  const prepared = await dataset.prepareCompaction(ids);
  await meanwhile();
  await dataset.refresh();
  const outcome = await prepared?.commit();
  return outcome !== undefined && isMade(outcome) ? outcome.removedFragments : undefined;
}

const idsOf = async (dataset: Dataset): Promise<number[]> =>
  (await dataset.layout()).fragments.map(({ id }) => id ?? Number.NaN);

async function contentOf(dataset: Dataset, ...more: readonly string[]): Promise<unknown[]> {
  const columns = ['id', 'text', ...more].map((name) => ({ name, expression: name }));
  const files = await Array.fromAsync(dataset.select(columns, undefined));
  return files.flatMap((file) => rowsOf(file)).sort((a, b) => Number(a.id) - Number(b.id));
}

describe('chosen fragments are compacted (P8)', () => {
  test('the others stay where they are, and every row is as it was (P1)', async (t) => {
    const { dataset } = await grownTable(t);
    const before = await contentOf(dataset);
    const version = await dataset.version();
    assert.deepEqual(await idsOf(dataset), [0, 1, 2, 3, 4, 5]);
    assert.equal(await move(dataset, [1, 2, 4, 5]), 3);
    assert.equal(await dataset.version(), version + 1);
    assert.deepEqual(await idsOf(dataset), [0, 3, 6]);
    const { fragments, rows } = await dataset.layout();
    assert.deepEqual([rows, fragments.at(-1)], [1_040, { id: 6, rows: 35, deletedRows: 0 }]);
    assert.deepEqual(await contentOf(dataset), before);
  });

  test('rows with ids of their own keep them, and the versions that created and changed them', async (t) => {
    const { dataset, engine } = await grownTable(t, { new_table_enable_stable_row_ids: 'true' });
    const identity = ['_rowid', '_row_created_at_version', '_row_last_updated_at_version'];
    const before = await contentOf(dataset, ...identity);
    const writer = await engine.open({ location });
    const meanwhile = () => mergeInto(writer, upsert, keyed(1_000, 12, 'meanwhile'));
    assert.equal(await move(dataset, [0, 1, 2, 4, 5], meanwhile), 3);
    const after = await contentOf(dataset, ...identity);
    const rowIds = (rows: readonly unknown[]) => rows.map((row) => (row as { _rowid: bigint })._rowid);
    assert.deepEqual(rowIds(after), rowIds(before));
    const isKept = (row: unknown) => !numbersFrom(1_000, 1_012).includes((row as { id: number }).id);
    assert.deepEqual(after.filter(isKept), before.filter(isKept));
    const { numUpdatedRows } = await mergeInto(dataset, upsert, keyed(990, 40, 'again'));
    assert.equal(numUpdatedRows, 40);
  });

  test('an index follows rows with ids where it covered all that were moved together', async (t) => {
    const { dataset, engine } = await grownTable(t, { new_table_enable_stable_row_ids: 'true' });
    await createIndex(dataset, 'id');
    const writer = await engine.open({ location });
    await move(dataset, [0, 1, 2, 3, 4], () => mergeInto(writer, upsert, keyed(1_010, 5, 'meanwhile')));
    const covered = async () => (await dataset.layout()).indexes.map(({ unindexedRows }) => unindexedRows);
    assert.deepEqual(await covered(), [5]);
    await move(dataset, [6, 7]);
    assert.deepEqual(await covered(), [1_030], 'one of them it did not cover');
    for (const [from, text] of [
      [1_010, 'meanwhile'],
      [1_015, 'later'],
      [994, 'first'],
      [995, 'updated'],
    ] as const) {
      const columns = [{ name: 'text', expression: 'text' }];
      const files = await Array.fromAsync(dataset.select(columns, ownSql(`id = ${from}`)));
      assert.deepEqual(
        files.flatMap((file) => rowsOf(file)),
        [{ text: `${text} ${from}` }],
      );
    }
  });

  test('merges through the index find the rows that moved, those that were in it too (P2, P4)', async (t) => {
    const { dataset } = await grownTable(t);
    await createIndex(dataset, 'id');
    await move(dataset, [1, 2, 5]);
    const counts = await mergeInto(dataset, upsert, keyed(990, 60, 'again'));
    assert.deepEqual([counts.numUpdatedRows, counts.numInsertedRows], [50, 10]);
    const ids = (await contentOf(dataset)).map((row) => (row as { id: number }).id);
    assert.deepEqual(ids, numbersFrom(0, 1_050));
  });

  test('nothing is changed, and nothing left, where it is not committed', async (t) => {
    const { dataset, folder } = await grownTable(t);
    const staging = 'lancegate=staging';
    const files = async () => {
      const folders = (await readdir(join(folder, 't.lance'))).filter((name) => name !== staging);
      const names = folders.map((name) => readdir(join(folder, 't.lance', name), { recursive: true }));
      return (await Promise.all(names)).flat().sort();
    };
    const before = await files();
    const version = await dataset.version();
    const prepared = await dataset.prepareCompaction([1, 2, 4, 5]);
    await dataset.refresh();
    assert.equal(await dataset.version(), version);
    prepared?.discard();
    prepared?.discard();
    assert.deepEqual(await files(), before);
    await eventually('nothing is staged', async () => (await readdir(join(folder, 't.lance', staging))).length === 0);
  });

  test('what writers do to the same rows concurrently stands: updates, deletions and all of a fragment (P1, P2)', async (t) => {
    const { engine, dataset } = await grownTable(t);
    const writer = await engine.open({ location });
    const moved = await move(dataset, [0, 1, 2, 3, 4, 5], async () => {
      await mergeInto(writer, upsert, keyed(500, 3, 'meanwhile'));
      await mergeInto(writer, upsert, keyed(1_010, 10, 'meanwhile'));
      await mergeInto(writer, upsert, keyed(1_039, 3, 'meanwhile'));
    });
    assert.equal(moved, 4);
    const rows = new Map(
      (await contentOf(dataset)).map((row) => [(row as { id: number }).id, row as { text: string }]),
    );
    assert.deepEqual([...rows.keys()], numbersFrom(0, 1_042));
    const isTheirs = (id: number): boolean =>
      (id >= 500 && id < 503) || (id >= 1_010 && id < 1_020) || (id >= 1_039 && id < 1_042);
    for (const [id, { text }] of rows) assert.equal(text.startsWith('meanwhile'), isTheirs(id), `${id}`);
    const counts = await mergeInto(dataset, upsert, keyed(0, 1_050, 'again'));
    assert.deepEqual([counts.numUpdatedRows, counts.numInsertedRows], [1_042, 8]);
  });

  test('all rows of all chosen fragments may go meanwhile', async (t) => {
    const { engine, dataset } = await grownTable(t);
    const writer = await engine.open({ location });
    await move(dataset, [1, 2, 3], async () => void (await mergeInto(writer, upsert, keyed(1_000, 40, 'new'))));
    assert.deepEqual(await idsOf(dataset), [0, 5, 6]);
    assert.equal(await dataset.countRows(), 1_040);
  });

  test('nor hides what another program commits at the same time', async (t) => {
    const { dataset, folder } = await grownTable(t);
    const version = await dataset.version();
    const outside = await (await connect(folder)).openTable('t');
    await move(dataset, [1, 2], () => outside.delete('id < 10'));
    assert.equal(await dataset.version(), version + 2);
    assert.equal(await dataset.countRows(), 1_030);
  });

  test('nor undoes what another program does to the same rows at the same time (P1)', async (t) => {
    const { dataset, folder } = await grownTable(t);
    const outside = await (await connect(folder)).openTable('t');
    await move(dataset, [1, 2, 3], async () => {
      await outside.delete('id = 1010');
      await outside.update({ where: 'id = 1011', values: { text: 'theirs' } });
    });
    const rows = new Map((await contentOf(dataset)).map((row) => [(row as { id: number }).id, row]));
    assert.deepEqual([rows.size, rows.has(1_010)], [1_039, false]);
    assert.deepEqual({ ...(rows.get(1_011) as object) }, { id: 1_011, text: 'theirs' });
    assert.equal(await dataset.countRows(), 1_039);
  });

  test('nor is done where another program has compacted, changed a column or gone back to an older version (P1)', async (t) => {
    for (const what of ['compacts', 'adds a column', 'goes back']) {
      const { dataset, folder } = await grownTable(t);
      const outside = await (await connect(folder)).openTable('t');
      const before = what === 'goes back' ? 1_000 : 1_040;
      const moved = await move(dataset, [1, 2, 3, 4], async () => {
        if (what === 'compacts') return outside.optimize();
        if (what === 'adds a column') return outside.addColumns([{ name: 'more', valueSql: 'id + 1' }]);
        await outside.checkout(2);
        return outside.restore();
      });
      assert.equal(moved, undefined, what);
      assert.equal(await dataset.countRows(), before, what);
      const ids = (await contentOf(dataset)).map((row) => (row as { id: number }).id);
      assert.deepEqual(ids, numbersFrom(0, before), what);
    }
  });

  test('nor where another program has changed the columns meanwhile: it can be tried again', async (t) => {
    const { dataset, folder } = await grownTable(t);
    const outside = await (await connect(folder)).openTable('t');
    const spoil = () =>
      outside.updateFieldMetadata([{ path: 'id', metadata: { 'lance-encoding:compression': 'zstd' } }]);
    assert.equal(await move(dataset, [1, 2, 3, 4], spoil), undefined);
    assert.equal(await move(dataset, [1, 2, 3, 4]), 3);
    assert.equal(await dataset.countRows(), 1_040);
  });

  test('is done although a column of other fragments was written anew meanwhile, but not of its own (P8)', async (t) => {
    const engine = engineIn(temporaryFolder((clean) => t.after(clean)));
    const rows = (ids: readonly number[], columns: readonly string[], value: number): IpcFile => {
      const others = columns.map((name) => [
        name,
        vectorFromArray(
          ids.map(() => value),
          new Int32(),
        ),
      ]);
      return ipcFile(new Table({ id: vectorFromArray(ids, new Int32()), ...Object.fromEntries(others) }));
    };
    const dataset = await createDataset(engine, location, rows(numbersFrom(0, 100), ['n', 'm'], 1), {});
    await createIndex(dataset, 'id'); // with it, the engine writes columns anew for rows that stay where they are
    for (const from of [100, 110]) await appendTo(dataset, rows(numbersFrom(from, from + 10), ['n', 'm'], 1));
    const writer = await engine.open({ location });
    const writeColumn = async (id: number) => {
      await writer.refresh();
      const shadow = await writer.shadow();
      await mergeInto(shadow, { ...upsert, whenNotMatchedInsertAll: false }, rows([id], ['n'], 2));
      assert.notEqual(await shadow.commit(), 'overtaken');
    };
    assert.equal(await move(dataset, [1, 2], () => writeColumn(105)), undefined, 'of its own');
    assert.equal(await move(dataset, [1, 2], () => writeColumn(7)), 1, 'of another');
    const columns = ['id', 'm'].map((name) => ({ name, expression: name }));
    const files = await Array.fromAsync(dataset.select(columns, ownSql('n = 2')));
    assert.deepEqual(
      files.flatMap(rowsOf).map((row) => ({ ...row })),
      [7, 105].map((id) => ({ id, m: 1 })),
    );
    assert.equal(await dataset.countRows(), 120);
  });

  test('another program goes on from it: it merges, compacts and indexes', async (t) => {
    const { dataset, folder } = await grownTable(t);
    await move(dataset, [0, 1, 2, 3, 4, 5]);
    const outside = await (await connect(folder)).openTable('t');
    await outside.delete('id = 7');
    await outside.createIndex('id', { config: Index.btree(), replace: true });
    await outside.optimize();
    assert.equal(await outside.countRows('id = 1039'), 1);
    assert.equal(await outside.countRows(), 1_039);
    await outside.checkout(await dataset.version());
    assert.equal(await outside.countRows(), 1_040);
  });

  test('none are none', async (t) => {
    const { dataset } = await grownTable(t);
    const version = await dataset.version();
    assert.equal(await move(dataset, []), undefined);
    assert.equal(await dataset.version(), version);
  });

  test('of a branch leaves the table alone', async (t) => {
    const { engine, dataset } = await grownTable(t);
    const branch = 'a/b' as BranchName;
    await dataset.branches.create(branch, { branch: undefined, version: undefined });
    const onBranch = await engine.open({ location, branch });
    await appendTo(onBranch, keyed(2_000, 10, 'branch'));
    const before = await contentOf(onBranch);
    assert.equal(await move(onBranch, [1, 2, 3, 6]), 3);
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
  assert.equal(await move(dataset, ids), 3);
  assert.deepEqual(await sorted(), before);
  dataset.close();
});

describe('rows are left where they are', () => {
  const idsIn = async (t: TestContext, table: Table, storageOptions: Record<string, string> = {}) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const dataset = await createDataset(engineIn(folder), location, ipcFile(table), storageOptions);
    t.after(() => dataset.close());
    const [{ id } = {}] = (await dataset.layout()).fragments;
    return id;
  };
  const numbers = vectorFromArray([1, 2], new Int32());

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
});

test('the addresses of neighbouring fragments are one range', () => {
  assert.equal(addressesIn([7]), `(_rowaddr >= ${7n << 32n} AND _rowaddr < ${8n << 32n})`);
  assert.equal(
    addressesIn([9, 2, 1, 3]),
    `(_rowaddr >= ${1n << 32n} AND _rowaddr < ${4n << 32n}) OR (_rowaddr >= ${9n << 32n} AND _rowaddr < ${10n << 32n})`,
  );
});
