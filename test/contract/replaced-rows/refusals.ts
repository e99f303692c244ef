import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Index } from '@lancedb/lancedb';
import { Field, Int64, LargeBinary, Struct, type Table } from 'apache-arrow';
import { addressOf } from '#src/engine/port/row-address.ts';
import type { Properties } from '#src/kernel/ids.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { numbersFrom } from '#test/http/wide-table.ts';
import {
  at,
  columns,
  expectReplaced,
  fileOf,
  int,
  isRefused,
  location,
  replace,
  replacing,
  rowsFrom,
  Stage,
  tablesOn,
  text,
  trackedRows,
} from './stage.ts';

export function rowsThatFitAreTaken(storage: TableStorage): void {
  const opened = tablesOn(storage);
  describe('where rows have ids of their own', () => {
    const options = { new_table_enable_stable_row_ids: 'true' };
    const identitiesOf = async (stage: Stage) => {
      const columns = ['id', 'text', '_rowid', '_row_created_at_version', '_row_last_updated_at_version'];
      const found = await (await stage.outside()).query().select(columns).toArray();
      const rows = found.map((row) => columns.map((name) => (name === 'text' ? row.text : Number(row[name]))));
      return rows.sort(([a], [b]) => a - b);
    };

    test('a row that another takes the place of leaves it its id, and the version that created it (P1)', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'), options);
      const chunk = { file: fileOf([...rowsFrom(7, 1, 'new'), ...rowsFrom(1, 1, 'ours')]), rows: 2 };
      const updated = () => [undefined, { fragment: 0, offset: 1 }];
      const { fragments } = expectReplaced(await dataset.replaceRows(tracked, at(0, 1), chunk, { updated }));
      await replace(dataset, tracked, at(0, 0), rowsFrom(8, 1, 'other'));
      assert.deepEqual(await identitiesOf(stage), [
        [1, 'ours 1', 1, 1, 2],
        [2, 'first 2', 2, 1, 1],
        [7, 'new 7', 3, 2, 2],
        [8, 'other 8', 4, 3, 3],
      ]);
      const [appended] = fragments;
      const again = { file: fileOf(rowsFrom(1, 1, 'again')), rows: 1 };
      const whole = () => [{ fragment: appended!.id, offset: 1 }];
      expectReplaced(await dataset.replaceRows(tracked, whole(), again, { updated: whole }));
      const end = dataset.prepareRows({ file: fileOf(rowsFrom(9, 2, 'end')), rows: 2 });
      expectReplaced(await dataset.insertRows(end, 'append'));
      const stored = await identitiesOf(stage);
      assert.deepEqual(stored[0], [1, 'again 1', 1, 1, 4]);
      assert.deepEqual(
        stored.slice(-2).map(([, , ...identity]) => identity),
        [
          [5, 5, 5],
          [6, 5, 5],
        ],
      );
    });

    test('many rows keep theirs, scattered and in a row, and a row is taken by its address', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5_000, 'first'), options);
      const ids = numbersFrom(0, 5_000)
        .filter((id) => id % 3 === 0 || id > 4_000)
        .reverse();
      const places = at(0, ...ids);
      const chunk = { file: fileOf(ids.map((id) => ({ id, text: `ours ${id}` }))), rows: ids.length };
      expectReplaced(await dataset.replaceRows(tracked, places, chunk, { updated: () => places }));
      for (const [id, , rowId, createdAt] of await identitiesOf(stage)) assert.deepEqual([rowId, createdAt], [id, 1]);
      const taken = dataset.take([addressOf({ fragment: 1, offset: 0 })], [{ name: 'id', expression: 'id' }]);
      const [file] = await Array.fromAsync(taken);
      assert.deepEqual(
        rowsOf(file!).map(({ id }) => id),
        [ids[0]],
      );
    });

    test('what another program appends and indexes has ids of its own, and is followed (P1)', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'), options);
      const outside = await stage.outside();
      await outside.add([{ id: 20, text: 'theirs' }]);
      await dataset.refresh();
      tracked.advance(await dataset.version());
      await outside.createIndex('id', { config: Index.btree() });
      const place = () => at(0, 1);
      const chunk = { file: fileOf([...rowsFrom(1, 1, 'ours'), ...rowsFrom(30, 1, 'new')]), rows: 2 };
      expectReplaced(await dataset.replaceRows(tracked, place(), chunk, { updated: place }));
      const found = await identitiesOf(stage);
      const [ours, theirs] = [found.find(([id]) => id === 1), found.find(([id]) => id === 20)];
      assert.deepEqual(
        [ours, theirs],
        [
          [1, 'ours 1', 1, 1, 4],
          [20, 'theirs', 3, 2, 2],
        ],
      );
      assert.deepEqual(found.at(-1), [30, 'new 30', 4, 4, 4]);
      assert.deepEqual(await stage.contents(undefined, 'id = 1'), ['ours 1']);
    });
  });

  describe('what is not for replacing is refused: nothing is written, and what is tracked is as it was (P1)', () => {
    const plain = columns([int('id'), [1, 2]], [text('text'), ['a', 'b']]);
    const encoded = new Map([['lance-encoding:compression', 'zstd']]);
    const refusals: readonly (readonly [string, Table, Table, Properties?])[] = [
      ['a source with fewer columns', plain, columns([int('id'), [1]])],
      ['a source with more columns', plain, columns([int('id'), [1]], [text('text'), ['x']], [int('more'), [1]])],
      ['a source with the columns in another order', plain, columns([text('text'), ['x']], [int('id'), [1]])],
      ['a source with other names', plain, columns([int('id'), [1]], [text('TEXT'), ['x']])],
      ['a source with another type', plain, columns([new Field('id', new Int64(), true), [1n]], [text('text'), ['x']])],
      [
        'a source with NULL allowed where the table forbids it',
        columns([int('id', false), [1, 2]], [text('text'), ['a', 'b']]),
        columns([int('id'), [1]], [text('text'), ['x']]),
      ],
      [
        'a source with metadata for the encoding of a column',
        plain,
        columns([int('id', true, encoded), [1]], [text('text'), ['x']]),
      ],
      [
        'a source without the metadata for the encoding of a column',
        columns([int('id', true, encoded), [1, 2]], [text('text'), ['a', 'b']]),
        plain,
      ],
      ['a table with files of version 2.0', plain, plain, { new_table_data_storage_version: '2.0' }],
      ['a table with files of version 2.1', plain, plain, { new_table_data_storage_version: '2.1' }],
      ['a table with files of the first version', plain, plain, { new_table_data_storage_version: 'legacy' }],
    ];
    for (const [what, target, source, options] of refusals) {
      test(what, async (t) => {
        const stage = new Stage(t, storage);
        const dataset = await createDataset(stage.engine, location, ipcFile(target), options ?? {});
        t.after(() => dataset.close());
        const tracked = await trackedRows(dataset);
        const before = stage.files();
        const chunk = { file: ipcFile(source), rows: source.numRows };
        assert.ok(isRefused(await dataset.replaceRows(tracked, at(0, 0), chunk)));
        await stage.requireFiles(before);
        assert.deepEqual([tracked.version, [...tracked.rowsOf(0)]], [1, at(0, 0, 1)]);
        assert.equal(await dataset.countRows(), 2);
        if (options !== undefined) return;
        const fitting = { file: ipcFile(target), rows: 2 };
        expectReplaced(await dataset.replaceRows(tracked, at(0, 0, 1), fitting));
        assert.equal(await dataset.countRows(), 2);
      });
    }

    test('fewer rows than were to come', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
      const before = stage.files();
      const chunk = { file: fileOf(rowsFrom(0, 2, 'second')), rows: 3 };
      assert.ok(isRefused(await dataset.replaceRows(tracked, at(0, 0), chunk)));
      await stage.requireFiles(before);
    });

    test('columns after one that was dropped are taken, nested ones too: under the ids of the table', async (t) => {
      const struct = new Field('s', new Struct([int('a'), text('b')]), true);
      const values = (...ids: readonly number[]) => ids.map((id) => ({ a: id, b: `b${id}` }));
      const stage = new Stage(t, storage);
      const target = columns([int('gone'), [0, 0]], [int('id'), [1, 2]], [struct, values(1, 2)]);
      const dataset = await createDataset(stage.engine, location, ipcFile(target), {});
      t.after(() => dataset.close());
      const outside = await stage.outside();
      await outside.dropColumns(['gone']);
      await outside.updateFieldMetadata([{ path: 's.b', metadata: { unit: 'm' } }]);
      await dataset.refresh();
      const tracked = await trackedRows(dataset);
      const source = columns([int('id'), [2, 3]], [struct, values(20, 30)]);
      expectReplaced(await dataset.replaceRows(tracked, at(0, 1), { file: ipcFile(source), rows: 2 }));
      const rows = await (await stage.outside()).query().toArray();
      assert.deepEqual(
        rows.map(({ id, s }: { id: number; s: { a: number; b: string } }) => [id, s.a, s.b]),
        [
          [1, 1, 'b1'],
          [2, 20, 'b20'],
          [3, 30, 'b30'],
        ],
      );
    });

    test('a column that was dropped and made anew without NULL', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 3, 'first'));
      const outside = await stage.outside();
      await outside.dropColumns(['text']);
      await outside.addColumns([{ name: 'text', valueSql: "'anew'" }]);
      await dataset.refresh();
      tracked.advance(await dataset.version());
      const before = stage.files();
      assert.ok(isRefused(await replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'ours'))));
      await stage.requireFiles(before);
      assert.deepEqual(await stage.contents(), ['anew', 'anew', 'anew']);
    });

    // Larger ones lie in files of their own beside the data file.
    for (const bytes of [10, 100_000, 5_000_000]) {
      const type = new Struct([new Field('data', new LargeBinary(), true), text('uri')]);
      const blob = new Field('blob', type, true, new Map([['ARROW:extension:name', 'lance.blob.v2']]));
      const rowsOf = (...ids: readonly number[]) =>
        columns([int('id'), ids], [blob, ids.map((id) => ({ data: Buffer.alloc(bytes, id), uri: null }))]);
      const storedIn = async (stage: Stage) => {
        const outside = await stage.outside();
        const found = (await outside.query().select(['id', '_rowaddr']).toArray()) as { _rowaddr: bigint }[];
        const addresses = found.map((row) => row._rowaddr);
        return (await outside.fetchBlobs('blob', addresses)).map((each) => [each?.length, each?.[0]]).sort();
      };
      const bothThere = [
        [bytes, 1],
        [bytes, 2],
      ];

      test(`a row with a blob of ${bytes} bytes has it after its replacement, unless that is refused (P1)`, async (t) => {
        const stage = new Stage(t, storage);
        const dataset = await createDataset(stage.engine, location, ipcFile(rowsOf(1, 2)), {});
        t.after(() => dataset.close());
        const chunk = { file: ipcFile(rowsOf(1)), rows: 1 };
        const replaced = await dataset.replaceRows(await trackedRows(dataset), at(0, 0), chunk);
        if (!isRefused(replaced)) expectReplaced(replaced);
        assert.deepEqual(await storedIn(stage), bothThere);
      });

      test(`a row with a blob of ${bytes} bytes has it after it was moved, unless it was left where it is (P1)`, async (t) => {
        const stage = new Stage(t, storage);
        const dataset = await createDataset(stage.engine, location, ipcFile(rowsOf(1)), {});
        t.after(() => dataset.close());
        await appendTo(dataset, ipcFile(rowsOf(2)));
        await (await dataset.prepareCompaction([0, 1]))?.commit();
        assert.deepEqual(await storedIn(stage), bothThere);
      });
    }
  });
}
