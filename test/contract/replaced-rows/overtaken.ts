import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { connect, type Table as LanceTable } from '@lancedb/lancedb';
import { Field, Int32, RecordBatch, Schema, Table, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { Replacing } from '#src/engine/port/row-address.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { numbersFrom } from '#test/http/wide-table.ts';
import {
  at,
  expectReplaced,
  fileOf,
  indexOn,
  isRefused,
  location,
  replace,
  replacing,
  rowsFrom,
  Stage,
  tablesOn,
  textsOf,
  trackedRows,
  upsert,
} from './stage.ts';

export function othersCommitBetween(storage: TableStorage): void {
  const opened = tablesOn(storage);
  const isOnStore = storage.kind === 'an object store';
  describe('another program commits in between', () => {
    const others: readonly (readonly [string, (outside: LanceTable) => Promise<unknown>])[] = [
      ['adds rows', (outside) => outside.add([{ id: 50, text: 'theirs' }])],
      ['deletes a row', (outside) => outside.delete('id = 3')],
      ['updates the same row', (outside) => outside.update({ where: 'id = 0', values: { text: 'theirs' } })],
      ['compacts fragments', (outside) => outside.optimize()],
      ['adds a column', (outside) => outside.addColumns([{ name: 'twice', valueSql: 'id * 2' }])],
      [
        'makes an index and deletes a row',
        async (outside) => {
          await indexOn(outside, 'id');
          await outside.delete('id = 3');
        },
      ],
    ];
    for (const [what, commit] of others) {
      test(`${what}: it is overtaken, nothing is written, and a merge goes on from there (P1)`, async (t) => {
        const { stage, dataset } = await opened(t, rowsFrom(0, 5, 'first'));
        await appendTo(dataset, fileOf(rowsFrom(5, 5, 'first')));
        const tracked = await trackedRows(dataset);
        await commit(await stage.outside());
        const [files, rows] = [stage.files(), await stage.rows()];
        assert.equal(await replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'ours')), 'overtaken');
        await stage.requireFiles(files);
        assert.deepEqual(await stage.rows(), rows);
        await dataset.refresh();
        await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
        assert.deepEqual(await stage.contents(undefined, 'id = 0'), ['merged 0']);
        assert.equal((await stage.rows()).length, rows.length);
      });
    }

    test('what was known at another version than that of the dataset is overtaken at once', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
      const before = stage.files();
      assert.equal(await replacing(dataset, tracked, at(0, 1), rowsFrom(1, 1, 'ours')), 'overtaken');
      await stage.requireFiles(before);
    });

    test('an index of theirs moves no row: it is committed on top of it, and the index stays', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 50, 'first'));
      const outside = await stage.outside();
      await indexOn(outside, 'id');
      const { version } = await replace(dataset, tracked, at(0, 7), [
        ...rowsFrom(7, 1, 'ours'),
        ...rowsFrom(50, 1, 'ours'),
      ]);
      assert.equal(version, 3);
      assert.deepEqual([await dataset.version(), tracked.version], [3, 3]);
      const expected = [...textsOf(rowsFrom(0, 50, 'first')).with(7, 'ours 7'), 'ours 50'];
      assert.deepEqual(await stage.contents(), expected);
      const after = await stage.outside();
      const { numIndexedRows, numUnindexedRows } = (await after.indexStats('id_idx')) ?? {};
      assert.deepEqual([numIndexedRows, numUnindexedRows], [49, 2]);
      for (const [id, texts] of [
        [7, ['ours 7']],
        [8, ['first 8']],
        [50, ['ours 50']],
      ] as const) {
        assert.deepEqual(await stage.contents(undefined, `id = ${id}`), texts);
      }
      await indexOn(after, 'text');
      await indexOn(after, 'id');
      assert.equal((await replace(dataset, tracked, at(0, 8), [])).version, 6);
      assert.deepEqual((await (await stage.outside()).listIndices()).map(({ name }) => name).sort(), [
        'id_idx',
        'text_idx',
      ]);
      assert.deepEqual(await stage.contents(), expected.toSpliced(8, 1));
    });

    test('a setting of theirs that makes the source unfit is no error: nothing is written, a merge can be', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      await (await stage.outside()).updateFieldMetadata([
        { path: 'id', metadata: { 'lance-encoding:compression': 'zstd' } },
      ]);
      const before = stage.files();
      assert.equal(await replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'ours')), 'overtaken');
      await stage.requireFiles(before);
      await dataset.refresh();
      await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
      assert.deepEqual(await stage.contents(undefined, 'id = 0'), ['merged 0']);
    });
  });

  test('rows that the engine wrote once are committed by the attempt that is not overtaken (P1)', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    const prepared = dataset.prepareRows({ file: fileOf(rowsFrom(0, 1, 'ours')), rows: 1 });
    const outside = await stage.outside();
    await outside.delete('id = 3');
    assert.equal(await dataset.replaceRows(tracked, at(0, 0), prepared), 'overtaken');
    await dataset.refresh();
    tracked.advance(await dataset.version());
    expectReplaced(await dataset.replaceRows(tracked, at(0, 0), prepared));
    prepared.discard();
    assert.deepEqual(await stage.contents(), ['ours 0', 'first 1', 'first 2', 'first 4']);
  });

  test('rows that no attempt committed leave no file when they are discarded', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    const prepared = dataset.prepareRows({ file: fileOf(rowsFrom(0, 1, 'ours')), rows: 1 });
    await (await stage.outside()).delete('id = 3');
    const before = stage.files();
    assert.equal(await dataset.replaceRows(tracked, at(0, 0), prepared), 'overtaken');
    prepared.discard();
    await stage.requireFiles(before);
  });

  if (!isOnStore)
    test('another table in the same folder is left as it is, though its version has the same number (P1)', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      const outside = await connect(stage.root);
      await outside.dropTable('t');
      await outside.createTable(
        't',
        rowsFrom(0, 5, 'theirs').map((row) => ({ ...row })),
      );
      const chunk = { file: fileOf(rowsFrom(0, 1, 'ours')), rows: 1 };
      assert.equal(await dataset.replaceRows(tracked, [{ fragment: 0, offset: 0 }], chunk), 'overtaken');
      assert.equal(await (await outside.openTable('t')).countRows("text LIKE 'theirs%'"), 5);
    });

  if (!isOnStore)
    test('nor are its rows taken for those of before, once it has more versions (P1, P2)', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      const outside = await connect(stage.root);
      await outside.dropTable('t');
      const theirs = await outside.createTable(
        't',
        rowsFrom(0, 5, 'theirs').map((row) => ({ ...row })),
      );
      await theirs.add([{ id: 6, text: 'theirs 6' }]);
      assert.equal(await dataset.refresh(), 'replaced');
      assert.equal(tracked.advance(2).isKnown, false);
    });

  test('a table that lists its new keys for other writers is for the engine to write to (P2)', async (t) => {
    const keyed = (...ids: readonly number[]): IpcFile => {
      const [batch] = new Table({ id: vectorFromArray(ids, new Int32()) }).batches;
      const key = new Field('id', new Int32(), false, new Map([['lance-schema:unenforced-primary-key', 'true']]));
      return ipcFile(new Table([new RecordBatch(new Schema([key]), batch!.data)]));
    };
    const stage = new Stage(t, storage);
    const dataset = await createDataset(stage.engine, location, keyed(1, 2), {});
    t.after(() => dataset.close());
    await appendTo(dataset, keyed(3));
    const tracked = await trackedRows(dataset);
    assert.ok(isRefused(await dataset.replaceRows(tracked, [], { file: keyed(4), rows: 1 })));
    await (await dataset.prepareCompaction([0, 1]))?.commit();
    assert.equal((await dataset.layout()).fragments.length, 1, 'its fragments can be compacted');
    assert.equal(await dataset.countRows(), 3);
  });

  if (!isOnStore)
    test('a commit that was overtaken leaves no time for another program at its next attempt', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 2, 'first'));
      for (const n of numbersFrom(1, 10)) await appendTo(dataset, fileOf(rowsFrom(2 * n, 2, 'first')));
      const old = numbersFrom(0, 10).flatMap((fragment) => at(fragment, 0));
      const toThread = t.mock.method(Worker.prototype, 'postMessage').mock;
      const ordersOf = async (attempt: () => Promise<Replacing>) => {
        const before = toThread.callCount();
        return { outcome: await attempt(), orders: toThread.callCount() - before };
      };
      tracked.advance(await dataset.version());
      await (await stage.outside()).delete('id = 19');
      const first = await ordersOf(() => replacing(dataset, tracked, old, rowsFrom(0, 10, 'ours')));
      assert.deepEqual(first, { outcome: 'overtaken', orders: 1 }, 'many files are written by a thread');
      await dataset.refresh();
      tracked.advance(await dataset.version());
      const { outcome, orders } = await ordersOf(() => replacing(dataset, tracked, old, rowsFrom(0, 10, 'ours')));
      expectReplaced(outcome);
      assert.equal(orders, 0, 'the second one writes them before anything else can happen');
      assert.equal(await dataset.countRows(), 19);
    });
}
