import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Field, FixedSizeList, Float32, Int32, List, Struct, Utf8 } from 'apache-arrow';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import type { Codec } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { openStored } from '#test/http/stored.ts';
import { numbersFrom, wideRows, wideStream } from '#test/http/wide-table.ts';
import { at, columns, expectReplaced, int, type Row, Stage, text, trackedRows, upsert } from './stage.ts';

export function valuesAreStored(storage: TableStorage): void {
  describe('values are stored as the engine stores those of a merge', () => {
    for (const codec of ['none', 'lz4', 'zstd'] satisfies readonly Codec[]) {
      test(`of every type, NULL among them, from a file with ${codec} compression`, async (t) => {
        const stage = new Stage(t, storage);
        const chunk = (from: number, count: number, turn = 0) =>
          wholeOf(wideStream([wideRows(numbersFrom(from, from + count), turn)], codec));
        const [replaced, merged] = await Promise.all(
          ['t.lance', 'twin.lance'].map(async (name) =>
            createDataset(stage.engine, name as Location, (await chunk(0, 40)).file, {}),
          ),
        );
        t.after(() => [replaced, merged].map((dataset) => dataset?.close()));
        const tracked = await trackedRows(replaced!);
        let fragment = 0;
        for (const [from, turn] of [
          [30, 3],
          [45, 5],
        ] as const) {
          const rows = await chunk(from, 15, turn);
          const addresses = fragment === 0 ? at(0, ...numbersFrom(30, 40)) : [];
          await replaced!.replaceRows(tracked, addresses, rows).then(expectReplaced);
          await mergeInto(merged!, upsertOn('n'), rows.file);
          fragment += 1;
        }
        const stored = async (name: string) => {
          const found: Record<string, unknown[]> = await (await openStored(stage.root, name)).rows();
          const order = (found.n ?? []).map((n, row) => ({ n: n as bigint, row })).sort((a, b) => Number(a.n - b.n));
          return Object.fromEntries(
            Object.entries(found).map(([column, of]) => [column, order.map(({ row }) => of[row])]),
          );
        };
        const expected = await stored('twin');
        assert.equal(expected.n?.length, 60);
        assert.deepEqual(await stored('t'), expected);
      });
    }

    test('columns without NULL go where NULL is allowed, nested ones too', async (t) => {
      const shape = (isNullable: boolean) => ({
        list: new List(new Field('item', new Int32(), isNullable)),
        vector: new FixedSizeList(2, new Field('item', new Float32(), isNullable)),
        struct: new Struct([
          int('a', isNullable),
          new Field('deep', new List(new Field('item', new Utf8(), isNullable)), isNullable),
        ]),
      });
      const rows = (isNullable: boolean, ...values: readonly (number | null)[]) => {
        const { list, vector, struct } = shape(isNullable);
        const each = <Value>(of: (value: number) => Value) =>
          values.map((value) => (value === null ? null : of(value)));
        return columns(
          [int('id', false), values.map((value, index) => value ?? -index)],
          [int('int', isNullable), each((value) => value)],
          [text('text', isNullable), each(String)],
          [new Field('list', list, isNullable), each((value) => [value, value + 1])],
          // Arrow's JavaScript cannot write a NULL here.
          [new Field('vector', vector, isNullable), values.map((value) => [value ?? 0, 1])],
          [new Field('struct', struct, isNullable), each((value) => ({ a: value, deep: [`${value}`, 'x'] }))],
        );
      };
      const stage = new Stage(t, storage);
      const read = async (name: string) => {
        const table = await (await connect(stage.root)).openTable(name);
        const found = (await table.query().toArray()).map(
          (row: unknown) => JSON.parse(JSON.stringify(row)) as { id: number },
        );
        return found.sort((a, b) => a.id - b.id);
      };
      const [replaced, merged] = await Promise.all(
        ['t.lance', 'twin.lance'].map((name) =>
          createDataset(stage.engine, name as Location, ipcFile(rows(true, 1, null, 3, null)), {}),
        ),
      );
      t.after(() => [replaced, merged].map((dataset) => dataset?.close()));
      const source = ipcFile(rows(false, 3, 7, 8));
      const tracked = await trackedRows(replaced!);
      expectReplaced(await replaced!.replaceRows(tracked, at(0, 2), { file: source, rows: 3 }));
      await mergeInto(merged!, upsert, source);
      const expected = await read('twin');
      assert.deepEqual(
        expected.map(({ id }) => id),
        [-3, -1, 1, 3, 7, 8],
      );
      assert.deepEqual(await read('t'), expected);
      const filtered = await (await stage.outside()).query().where('struct.a = 7').select(['id', 'text']).toArray();
      assert.deepEqual(
        filtered.map(({ id, text: value }: Row) => [id, value]),
        [[7, '7']],
      );
      assert.equal(await replaced!.countRows(ownSql('int IS NULL')), 2);
    });
  });
}
