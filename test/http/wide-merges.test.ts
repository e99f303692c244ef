/** Merges into tables of many columns: the engine's own join of the table and the source would end its process. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { DataType, Field } from '#src/arrow/schema/schema.ts';
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

describe('a merge into a table of 300 columns, some of them encoded by dictionaries', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { READERS: '1' });
  });
  const encoded = (name: string, id: number): Field =>
    field(name, utf8, { dictionary: { id: BigInt(id), index: { bitWidth: 8, signed: true }, ordered: false } });
  const schema = (columns: readonly string[]) =>
    schemaOf([
      field('id', int32),
      ...columns.map((name) => {
        if (name === 'd1') return encoded(name, 1);
        if (name === 'd2') return encoded(name, 2);
        if (name === 's') return field(name, { kind: 'struct' }, { children: [encoded('d3', 3), field('n', int32)] });
        return field(name, int32);
      }),
    ]);
  type Value = number | string | null | { d3: string; n: number };
  const stream = (columns: readonly string[], rows: readonly (readonly Value[])[]) =>
    encodeStream(schema(columns), [
      Object.fromEntries(['id', ...columns].map((name, i) => [name, rows.map((row) => row[i] ?? null)])),
    ]);
  const columns = ['d1', 'd2', 's', ...names];
  const row = (id: number): readonly Value[] => [
    id,
    `one ${id % 2}`,
    `two ${id}`,
    { d3: `three ${id}`, n: id },
    ...names.map(() => id),
  ];
  const newTable = async (table: string) => {
    succeeded(await service.post(`/v1/table/${table}/create`, stream(columns, [row(1), row(2)])));
    succeeded(await service.post(`/v1/table/${table}/insert`, stream(columns, [row(3), row(4)])));
  };
  const stored = async (table: string) =>
    (await storedRows(service, table))
      .map(({ id, d1, d2, s, c0, c299 }) => [id, d1, d2, s, c0, c299])
      .sort(([a], [b]) => Number(a) - Number(b))
      .map((values) =>
        JSON.parse(JSON.stringify(values, (_, value) => (typeof value === 'bigint' ? Number(value) : value))),
      );
  const asRow = (values: readonly Value[]) => [...values.slice(0, 5), values.at(-1)];
  const all = 'when_matched_update_all&when_not_matched_insert_all';

  test('keeps their values, of whichever fragment they are, and sets those that it sends (P1, P8)', async () => {
    await newTable('encoded1');
    succeeded(
      await service.post(
        `/v1/table/encoded1/merge_insert?on=id&${all}`,
        stream(
          ['c0'],
          [
            [4, 70],
            [1, 70],
          ],
        ),
      ),
    );
    const sent = stream(
      ['d2', 's'],
      [
        [2, 'two 4', { d3: 'new', n: 5 }],
        [3, null, { d3: 'three 1', n: 6 }],
        [9, 'other', null],
      ],
    );
    succeeded(await service.post(`/v1/table/encoded1/merge_insert?on=id&${all}`, sent));
    assert.deepEqual(await stored('encoded1'), [
      [1, 'one 1', 'two 1', { d3: 'three 1', n: 1 }, 70, 1],
      [2, 'one 0', 'two 4', { d3: 'new', n: 5 }, 2, 2],
      [3, 'one 1', null, { d3: 'three 1', n: 6 }, 3, 3],
      [4, 'one 0', 'two 4', { d3: 'three 4', n: 4 }, 70, 4],
      [9, null, 'other', null, null, null],
    ]);
  });

  test('does so when the addresses of its rows are in memory (P8)', async () => {
    await newTable('encoded2');
    for (let round = 0; round < 6; round++) {
      const sent = stream(
        ['c0', 'd1'],
        [
          [3, round, `round ${round}`],
          [2, round, 'one 1'],
        ],
      );
      succeeded(await service.post('/v1/table/encoded2/merge_insert?on=id&when_matched_update_all', sent));
      const plain = stream(
        ['c299'],
        [
          [3, round],
          [1, round],
        ],
      );
      succeeded(await service.post('/v1/table/encoded2/merge_insert?on=id&when_matched_update_all', plain));
    }
    assert.deepEqual(await stored('encoded2'), [
      [...asRow(row(1)).slice(0, 5), 5],
      [2, 'one 1', 'two 2', { d3: 'three 2', n: 2 }, 5, 2],
      [3, 'round 5', 'two 3', { d3: 'three 3', n: 3 }, 5, 5],
      asRow(row(4)),
    ]);
  });

  test('updates under a filter that names them (P1)', async () => {
    await newTable('encoded3');
    const filter = encodeURIComponent("target.d2 = 'two 3' OR source.d1 = target.d1");
    const sent = stream(
      ['d1', 'c0'],
      [
        [1, 'one 1', 70],
        [2, 'one 1', 70],
        [3, 'one 9', 70],
        [4, 'one 1', 70],
      ],
    );
    succeeded(await service.post(`/v1/table/encoded3/merge_insert?on=id&when_matched_update_all_filt=${filter}`, sent));
    assert.deepEqual(await stored('encoded3'), [
      [1, 'one 1', 'two 1', { d3: 'three 1', n: 1 }, 70, 1],
      asRow(row(2)),
      [3, 'one 9', 'two 3', { d3: 'three 3', n: 3 }, 70, 3],
      asRow(row(4)),
    ]);
  });

  test('writes rows of fragments that have more values together than one dictionary has indexes (P1)', async () => {
    const rows = Array.from({ length: 200 }, (_, i) => row(i));
    succeeded(await service.post('/v1/table/encoded4/create', stream(columns, rows.slice(0, 100))));
    succeeded(await service.post('/v1/table/encoded4/insert', stream(columns, rows.slice(100))));
    for (const merged of [[1, 199], rows.map((_, i) => i)]) {
      const sent = stream(
        ['c0'],
        merged.map((id) => [id, 70 + id]),
      );
      succeeded(await service.post('/v1/table/encoded4/merge_insert?on=id&when_matched_update_all', sent));
      assert.deepEqual(
        await stored('encoded4'),
        rows.map((old, i) => [...old.slice(0, 4), merged.includes(i) ? 70 + i : i, i]),
      );
    }
  });
});
