/** Merges into tables of many columns: the engine's own join of the table and the source would end its process. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { DataType } from '#src/arrow/schema/schema.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { part, transact } from './multipart-body.ts';
import { storedRows } from './rows.ts';

const int32: DataType = { kind: 'int', bitWidth: 32, signed: true };
const utf8: DataType = { kind: 'utf8' };
const names = Array.from({ length: 300 }, (_, i) => `c${i}`);
const typeOf = (name: string): DataType => (name === 'c1' ? utf8 : int32);
const valueIn = (name: string, id: number): number | string => (name === 'c1' ? `text ${id}` : id);

const rowsOf = (ids: readonly number[], columns: readonly string[], value = valueIn): Buffer =>
  encodeStream(schemaOf([field('id', int32), ...columns.map((name) => field(name, typeOf(name)))]), [
    { id: ids, ...Object.fromEntries(columns.map((name) => [name, ids.map((id) => value(name, id))])) },
  ]);

describe('a merge into a table of 300 columns', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later, { READERS: '1' });
  });
  const newTable = async (): Promise<string> => {
    tables += 1;
    succeeded(await service.post(`/v1/table/wide${tables}/create`, rowsOf([1, 2, 3], names)));
    return `wide${tables}`;
  };
  const merge = (table: string, query: string, ids: readonly number[], columns: readonly string[]) =>
    service.post(
      `/v1/table/${table}/merge_insert?on=id&${query}`,
      rowsOf(ids, columns, () => 70),
    );
  const counts = (answer: Record<string, unknown>) => [
    answer.num_updated_rows,
    answer.num_inserted_rows,
    answer.num_deleted_rows,
  ];
  /** Of some columns, by the id. */
  const stored = async (table: string) =>
    (await storedRows(service, table))
      .map((row) => [row.id, row.c0, row.c1, row.c299].map((value) => (value === null ? null : String(value))))
      .sort();
  const kept = (id: number) => [`${id}`, `${id}`, `text ${id}`, `${id}`];
  const changed = (id: number) => [`${id}`, '70', `text ${id}`, `${id}`];

  test('keeps the columns that it does not send, and is NULL in them where it inserts (P1, P12)', async () => {
    const table = await newTable();
    const flags = 'when_matched_update_all&when_not_matched_insert_all';
    assert.deepEqual(counts(succeeded(await merge(table, flags, [2, 9], ['c0']))), [1, 1, 0]);
    assert.deepEqual(await stored(table), [kept(1), changed(2), kept(3), ['9', '70', null, null]]);
  });

  test('does so when the addresses of its rows are in memory (P8)', async () => {
    const table = await newTable();
    for (let round = 0; round < 6; round++) {
      assert.deepEqual(counts(succeeded(await merge(table, 'when_matched_update_all', [3], ['c0']))), [1, 0, 0]);
    }
    assert.deepEqual(await stored(table), [kept(1), kept(2), changed(3)]);
  });

  test('updates under a filter, and deletes by source under another (P1)', async () => {
    const table = await newTable();
    const update = `when_matched_update_all_filt=${encodeURIComponent('target.c299 > 1 AND source.c0 > 60')}`;
    const remove = `when_not_matched_by_source_delete_filt=${encodeURIComponent('c299 = 3')}`;
    assert.deepEqual(counts(succeeded(await merge(table, `${update}&${remove}`, [1, 2], ['c0']))), [1, 0, 1]);
    assert.deepEqual(await stored(table), [kept(1), changed(2)]);
  });

  test('refuses a filter that names a column that is not there, also where no row matches', async () => {
    const table = await newTable();
    for (const filter of ['target.nope > 1', 'source.c5 > 1']) {
      const answer = await merge(table, `when_matched_update_all_filt=${encodeURIComponent(filter)}`, [8], ['c0']);
      refused(answer, 400, 12, /names a column that does not exist/);
    }
  });

  test('can be one of several operations', async () => {
    const table = await newTable();
    const merging = { operation: 'merge_insert', on: 'id', source: 'rows', when_matched_update_all: true };
    const steps = [part('x', { operation: 'delete', predicate: 'id = 1' }), part('y', merging)];
    succeeded(
      await transact(service, table, [
        ...steps,
        part(
          'rows',
          rowsOf([2], ['c0'], () => 70),
        ),
      ]),
    );
    assert.deepEqual(await stored(table), [changed(2), kept(3)]);
  });
});
