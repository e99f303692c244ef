/** Structs of which a source sends some fields, or all in another order: fields are taken by name. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { DataType, Field } from '#src/arrow/schema/schema.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { isStalled, readersOf } from '#test/fixtures/reader-processes.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { part, transact } from './multipart-body.ts';
import { storedRows } from './rows.ts';
import { stallReads } from './stalled-reads.ts';

const int32: DataType = { kind: 'int', bitWidth: 32, signed: true };
const utf8: DataType = { kind: 'utf8' };
const struct = (name: string, children: readonly Field[], nullable = true): Field =>
  field(name, { kind: 'struct' }, { children, nullable });
const list = (name: string, item: Field): Field => field(name, { kind: 'list' }, { children: [item] });
const id = field('id', int32);
const a = field('a', int32);
const b = field('b', utf8);
const must = field('must', int32, { nullable: false });
const coded = field('coded', utf8, { dictionary: { id: 1n, index: { bitWidth: 8, signed: true }, ordered: false } });

const s = struct('s', [a, b, struct('in', [a, b])]);
const table = encodeStream(schemaOf([id, s]), [
  {
    id: [1, 2, 3],
    s: [{ a: 1, b: 'one', in: { a: 10, b: 'ten' } }, null, { a: 3, b: null, in: null }],
  },
]);
const stored = [
  { id: 1, s: { a: 1, b: 'one', in: { a: 10, b: 'ten' } } },
  { id: 2, s: null },
  { id: 3, s: { a: 3, b: null, in: null } },
];

/** `b` alone, the outer and the inner, in another order than the table's. */
const partial = schemaOf([struct('s', [struct('in', [b]), b]), id]);
const rowsOf = (ids: readonly number[]) =>
  encodeStream(partial, [{ id: ids, s: ids.map(() => ({ b: 'new', in: { b: 'inner' } })) }]);
const inserted = (key: number) => ({ id: key, s: { a: null, b: 'new', in: { a: null, b: 'inner' } } });
const updated = [
  { id: 1, s: { a: 1, b: 'new', in: { a: 10, b: 'inner' } } },
  { id: 2, s: { a: null, b: 'new', in: { a: null, b: 'inner' } } },
  { id: 3, s: { a: 3, b: 'new', in: { a: null, b: 'inner' } } },
];

describe('fields of structs', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later);
  });
  const newTable = async (rows: Uint8Array = table): Promise<string> => {
    tables += 1;
    succeeded(await service.post(`/v1/table/t${tables}/create`, rows));
    return `t${tables}`;
  };
  const merge = (name: string, query: string, rows: Uint8Array) =>
    service.post(`/v1/table/${name}/merge_insert?${query}`, rows);
  const insert = (name: string, rows: Uint8Array) => service.post(`/v1/table/${name}/insert`, rows);

  const update = 'when_matched_update_all=true';
  const add = 'when_not_matched_insert_all=true';
  const remove = 'when_not_matched_by_source_delete=true';
  const under = `when_matched_update_all_filt=${encodeURIComponent('target.id > 1')}`;

  test('that an insert does not send are NULL', async () => {
    const name = await newTable();
    succeeded(await insert(name, rowsOf([8, 9])));
    assert.deepEqual(await storedRows(service, name), [...stored, inserted(8), inserted(9)]);
  });

  const merges: readonly (readonly [what: string, query: string, rows: readonly unknown[]])[] = [
    ['an upsert', 'on=id', [...updated, inserted(4)]],
    ['an update', `on=id&${update}`, updated],
    ['an insert of new keys', `on=id&${add}`, [...stored, inserted(4)]],
    ['an update under a filter', `on=id&${under}&${add}`, [stored[0], updated[1], updated[2], inserted(4)]],
    ['an upsert that deletes by source', `on=id&${update}&${add}&${remove}`, [...updated, inserted(4)]],
  ];
  for (const [what, query, expected] of merges) {
    test(`that ${what} does not send keep what they hold`, async () => {
      const name = await newTable();
      const found = new Set((await storedRows(service, name)).map((row) => row.id));
      assert.equal(found.size, 3);
      succeeded(await merge(name, query, rowsOf([4, 3, 2, 1])));
      assert.deepEqual(await storedRows(service, name), expected);
    });
  }

  test('keep what they hold on a branch, by the key index, and as a step of several operations', async () => {
    const name = await newTable();
    succeeded(await service.post(`/v1/table/${name}/branches/create`, { name: 'b' }));
    succeeded(await merge(name, 'on=id&branch=b', rowsOf([1, 4])));
    const counted = await service.post(`/v1/table/${name}/count_rows`, {
      branch: 'b',
      predicate: "s.a = 1 AND s.b = 'new' AND s.in.a = 10 AND s.in.b = 'inner'",
    });
    assert.equal(counted.body, 1);
    for (let round = 0; round < 4; round++) succeeded(await merge(name, 'on=id', rowsOf([1, 2, 3, 4 + round])));
    assert.deepEqual((await storedRows(service, name)).slice(0, 3), updated);
    const other = await newTable();
    const step = { operation: 'merge_insert', on: 'id', source: 'rows' };
    const steps = [part('x', step), part('y', { operation: 'insert', source: 'more' })];
    succeeded(await transact(service, other, [...steps, part('rows', rowsOf([1])), part('more', rowsOf([7]))]));
    assert.deepEqual(await storedRows(service, other), [updated[0], stored[1], stored[2], inserted(7)]);
  });

  test('keep what they hold where the key is one of them', async () => {
    const name = await newTable();
    const rows = encodeStream(schemaOf([struct('s', [b, a])]), [{ s: [{ a: 1, b: 'by a' }] }]);
    assert.equal(succeeded(await merge(name, `on=s.a&${update}`, rows)).num_updated_rows, 1);
    assert.deepEqual((await storedRows(service, name))[0], { id: 1, s: { a: 1, b: 'by a', in: { a: 10, b: 'ten' } } });
  });

  test('of a struct that the source has as NULL: what it sends becomes NULL, and the rest stays', async () => {
    const name = await newTable();
    succeeded(await merge(name, 'on=id', encodeStream(partial, [{ id: [1, 2], s: [null, null] }])));
    assert.deepEqual((await storedRows(service, name)).slice(0, 2), [
      { id: 1, s: { a: 1, b: null, in: { a: 10, b: null } } },
      stored[1],
    ]);
  });

  test('keep what they hold where the process that reads them is killed, and every other request goes on (P1, P12)', async (t) => {
    const [name, other] = [await newTable(), await newTable()];
    const reads = stallReads(service, name, t.after.bind(t));
    const merged = merge(name, 'on=id', rowsOf([1, 2, 3]));
    const stalled = () => readersOf(process.pid).find(isStalled);
    await eventually('a process reads them', () => stalled() !== undefined);
    succeeded(await merge(other, 'on=id', rowsOf([1])));
    reads.putBack();
    process.kill(stalled()!, 'SIGKILL');
    assert.equal((succeeded(await merged) as Record<string, unknown>).num_updated_rows, 3);
    assert.deepEqual(await storedRows(service, name), updated);
    assert.deepEqual(await storedRows(service, other), [updated[0], stored[1], stored[2]]);
  });

  test('come in any order, also in lists and beside dictionaries', async () => {
    const item = (order: readonly Field[]): Field => list('items', struct('item', order));
    const whole = schemaOf([id, item([a, b]), struct('s', [coded, a])]);
    const values = (ids: readonly number[]) => [
      {
        id: ids,
        items: ids.map((n) => [{ a: n, b: `${n}` }, null]),
        s: ids.map((n) => ({ a: n, coded: `c${n % 2}` })),
      },
    ];
    const name = await newTable(encodeStream(whole, values([1, 2])));
    const other = schemaOf([struct('s', [a, coded]), item([b, a]), id]);
    succeeded(await merge(name, 'on=id', encodeStream(other, values([2, 3]))));
    succeeded(await insert(name, encodeStream(other, values([4]))));
    const row = (n: number) => ({ id: n, items: [{ a: n, b: `${n}` }, null], s: { coded: `c${n % 2}`, a: n } });
    assert.deepEqual(await storedRows(service, name), [row(1), row(2), row(3), row(4)]);
  });

  test('that allow no NULL are needed by inserts, and kept by updates', async () => {
    const strict = struct('s', [must, b]);
    const name = await newTable(encodeStream(schemaOf([id, strict]), [{ id: [1, 2], s: [{ must: 5, b: 'x' }, null] }]));
    const rows = (ids: readonly number[]) =>
      encodeStream(schemaOf([id, struct('s', [b])]), [{ id: ids, s: ids.map(() => ({ b: 'new' })) }]);
    const missing = /^column s\.must is missing in the source, and the table does not allow NULL in it/;
    refused(await insert(name, rows([9])), 400, 20, missing);
    refused(await merge(name, 'on=id', rows([1])), 400, 20, missing);
    refused(await merge(name, `on=id&${update}`, rows([1, 2])), 400, 20, /^column s\.must would become NULL/);
    assert.equal(succeeded(await merge(name, `on=id&${update}`, rows([1, 9]))).num_updated_rows, 1);
    const nulls = encodeStream(schemaOf([id, struct('s', [b, field('must', int32)])]), [
      { id: [1], s: [{ must: null, b: 'x' }] },
    ]);
    refused(await merge(name, 'on=id', nulls), 400, 20, /^column s\.must holds a NULL/);
    assert.deepEqual(await storedRows(service, name), [
      { id: 1, s: { must: 5, b: 'new' } },
      { id: 2, s: null },
    ]);
  });

  test('may allow NULL or none otherwise than the table, beside columns that the source leaves out', async () => {
    const declared = (nullable: boolean): readonly Field[] => [
      field('k', int32, { nullable }),
      list('l', field('item', utf8, { nullable })),
      field('v', { kind: 'fixed_size_list', listSize: 2 }, { children: [field('item', int32, { nullable })] }),
    ];
    const tableOf = (nullable: boolean) =>
      encodeStream(schemaOf([id, struct('s', declared(nullable)), b]), [
        { id: [1, 2, 3], s: [1, 2, 3].map(valued), b: ['x', 'x', 'x'] },
      ]);
    const valued = (k: number) => ({ k, l: [`${k}`], v: [k, k] });
    for (const strict of [true, false]) {
      const source = schemaOf([id, struct('s', declared(strict))]);
      const rows = (ids: readonly number[], ks: readonly number[]) =>
        encodeStream(source, [{ id: ids, s: ks.map(valued) }]);
      const row = (key: number, k: number, text: string | null = 'x') => ({ id: key, s: valued(k), b: text });
      const name = await newTable(tableOf(!strict));
      succeeded(await merge(name, 'on=id', rows([1, 9], [10, 90])));
      assert.deepEqual(await storedRows(service, name), [row(1, 10), row(2, 2), row(3, 3), row(9, 90, null)]);
      const nested = `on=s.k&${add}&when_matched_update_all_filt=${encodeURIComponent('target.id > 1')}`;
      succeeded(await merge(name, nested, rows([1, 4, 5], [10, 3, 50])));
      const [, two, ...others] = [row(1, 10), row(2, 2), row(4, 3), row(5, 50, null), row(9, 90, null)];
      assert.deepEqual(await storedRows(service, name), [row(1, 10), two, ...others]);
      assert.equal(succeeded(await merge(name, `on=s.k&${remove}`, rows([0, 0], [3, 90]))).num_deleted_rows, 3);
      assert.deepEqual(await storedRows(service, name), [row(4, 3), row(9, 90, null)]);
    }
    const name = await newTable(tableOf(false));
    const loose = schemaOf([id, struct('s', declared(true))]);
    for (const held of [
      { ...valued(1), k: null },
      { ...valued(1), l: [null] },
    ]) {
      const rows = encodeStream(loose, [{ id: [1], s: [held] }]);
      refused(await merge(name, `on=id&${update}`, rows), 400, 20, /^column s\.[kl].* holds a NULL/);
    }
  });

  test('in lists are called as the table calls them, whatever programs call the elements', async () => {
    const called = (name: string) =>
      schemaOf([id, list('l', field(name, utf8)), struct('s', [list('m', field(name, a.type))])]);
    const rows = (name: string, ids: readonly number[], text: string) =>
      encodeStream(called(name), [{ id: ids, l: ids.map(() => [text, null]), s: ids.map((n) => ({ m: [n] })) }]);
    const row = (key: number, text: string) => ({ id: key, l: [text, null], s: { m: [key] } });
    const name = await newTable(rows('element', [1, 2], 'old'));
    succeeded(await merge(name, 'on=id', rows('item', [2, 3], 'new')));
    succeeded(await merge(name, `on=id&${update}&${under}`, rows('l', [3], 'newer')));
    succeeded(await insert(name, rows('item', [4], 'new')));
    assert.deepEqual(await storedRows(service, name), [row(1, 'old'), row(2, 'new'), row(3, 'newer'), row(4, 'new')]);
  });

  const mistakes: readonly (readonly [what: string, sent: Field, says: RegExp])[] = [
    ['an unknown field', struct('s', [a, field('c', int32)]), /^column s\.c does not exist in the table/],
    ['an unknown inner field', struct('s', [struct('in', [must])]), /^column s\.in\.must does not exist in the table/],
    ['another type', struct('s', [field('a', utf8)]), /^column s is struct.* in the table and struct/],
  ];
  for (const [what, sent, says] of mistakes) {
    test(`that do not fit are refused: ${what} (P6)`, async () => {
      const name = await newTable();
      const rows = encodeStream(schemaOf([id, sent]), []);
      refused(await insert(name, rows), 400, 20, says);
      refused(await merge(name, 'on=id', rows), 400, 20, says);
    });
  }

  test('may not be missing in a list', async () => {
    const whole = schemaOf([id, list('items', struct('item', [a, b]))]);
    const name = await newTable(encodeStream(whole, [{ id: [1], items: [[{ a: 1, b: 'x' }]] }]));
    const rows = encodeStream(schemaOf([id, list('items', struct('item', [b]))]), []);
    refused(await insert(name, rows), 400, 20, /^column items\.item\.a is missing in the source/);
  });
});
