/** Columns of Arrow's type Null, as pyarrow sends a column of nothing but None: they stand for NULL in whatever type the table has. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import type { Field } from '#src/arrow/schema/schema.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type Codec, encodeStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from '#test/http/checked-service.ts';
import { storedRows } from '#test/http/rows.ts';
import { numbersFrom, wideRows, wideSchema } from '#test/http/wide-table.ts';

/**
 * Written by pyarrow 26.0.1:
 * pa.table({'id': pa.array([2, 4], pa.int64()), 'name': [None, None], 'tags': pa.array([[], [None]]),
 *           'm': pa.array([{'a': 5, 'b': None}, {'a': 6, 'b': None}])})
 */
const fromPyarrow = Buffer.from(
  [
    '/////4ABAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAQAAAAcAQAA3AAAAIQAAAAEAAAABP///wAAAQ0YAA',
    'AAHAAAAAQAAAACAAAAOAAAABAAAAABAAAAbQAAADT///8w////AAABARAAAAAUAAAABAAAAAAAAAABAAAAYgAAAFj///9U////AAABAhAAAAAU',
    'AAAABAAAAAAAAAABAAAAYQAAAET///8AAAABQAAAAID///8AAAEMFAAAABwAAAAEAAAAAQAAABQAAAAEAAAAdGFncwAAAACw////rP///wAAAQ',
    'EQAAAAGAAAAAQAAAAAAAAABAAAAGl0ZW0AAAAA2P///9T///8AAAEBEAAAABwAAAAEAAAAAAAAAAQAAABuYW1lAAAAAAQABAAEAAAAEAAUAAgA',
    'BgAHAAwAAAAQABAAAAAAAAECEAAAABwAAAAEAAAAAAAAAAIAAABpZAAACAAMAAgABwAIAAAAAAAAAUAAAAD/////OAEAABQAAAAAAAAADAAWAA',
    'YABQAIAAwADAAAAAADBAAYAAAAMAAAAAAAAAAAAAoAGAAMAAQACAAKAAAAjAAAABAAAAACAAAAAAAAAAAAAAAHAAAAAAAAAAAAAAAAAAAAAAAA',
    'AAAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAMAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAIA',
    'AAAAAAAAAQAAAAAAAAAAAAAAAHAAAAAgAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAgAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAABAAAA',
    'AAAAAAIAAAAAAAAAAAAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAACAAAAAAAAAAIAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAEAAAAAAA',
    'AABQAAAAAAAAAGAAAAAAAAAP////8AAAAA',
  ].join(''),
  'base64',
);

/** Written by pyarrow 26.0.1: pa.table({'id': [None, None]}). Its list of buffers is empty, and aligned to four bytes only. */
const idsFromPyarrow = Buffer.from(
  [
    '/////3AAAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAEAAAAUAAAAEAAUAAgABgAHAAwAAAAQABAAAAAAAAEBEAAA',
    'ABgAAAAEAAAAAAAAAAIAAABpZAAABAAEAAQAAAAAAAAA/////1gAAAAUAAAAAAAAAAAACgAOAAYABQAIAAoAAAAAAwQAEAAAAAAACgAUAAwABAAIAAoA',
    'AAAUAAAADAAAAAIAAAAAAAAAAAAAAAEAAAACAAAAAAAAAAIAAAAAAAAA/////wAAAAA=',
  ].join(''),
  'base64',
);

const int32 = { kind: 'int', bitWidth: 32, signed: true } as const;
const nothing = { kind: 'null' } as const;
const text = { kind: 'utf8' } as const;
const key = field('id', int32);
const list = (item: Field): Field => field('tags', { kind: 'list' }, { children: [item] });

const nested = field('m', { kind: 'struct' }, { children: [field('a', { ...int32, bitWidth: 64 }), field('b', text)] });

const peopleSchema = schemaOf([
  field('id', { kind: 'int', bitWidth: 64, signed: true }),
  field('name', text),
  list(field('item', text)),
  nested,
]);
const people = encodeStream(peopleSchema, [
  {
    id: [1n, 2n, 3n],
    name: ['a', 'b', 'c'],
    tags: [['x'], ['y', 'z'], null],
    m: [{ a: 1n, b: 'q' }, { a: 2n, b: null }, null],
  },
]);

describe('a column of type Null', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });

  const create = async (table: string, bytes: Uint8Array): Promise<void> =>
    void succeeded(await service.post(`/v1/table/${table}/create`, bytes));
  const merge = (table: string, bytes: Uint8Array, query = 'on=id') =>
    service.post(`/v1/table/${table}/merge_insert?${query}`, bytes);

  test('is NULL in the rows of an upsert, updated and inserted, at the top, in a struct and in a list', async () => {
    assert.equal(tableFromIPC(fromPyarrow).schema.fields[1]?.type.toString(), 'Null');
    await create('people', people);
    const { body } = await merge('people', fromPyarrow);
    assert.deepEqual([body.num_updated_rows, body.num_inserted_rows], [1, 1]);
    assert.deepEqual(await storedRows(service, 'people'), [
      { id: 1, name: 'a', tags: ['x'], m: { a: 1, b: 'q' } },
      { id: 2, name: null, tags: [], m: { a: 5, b: null } },
      { id: 3, name: 'c', tags: null, m: null },
      { id: 4, name: null, tags: [null], m: { a: 6, b: null } },
    ]);
    succeeded(await merge('people', people));
    assert.equal((await storedRows(service, 'people'))[1]?.name, 'b');
  });

  for (const codec of ['none', 'zstd'] satisfies Codec[]) {
    test(`fits every type that the table can have, beside columns with values (${codec})`, async () => {
      const plain = wideSchema.fields.filter(({ dictionary, children }) =>
        [{ dictionary }, ...children].every((each) => each.dictionary === undefined),
      );
      const table = `wide_${codec}`;
      const rowsOf = (from: number, end: number): Rows =>
        Object.fromEntries(
          Object.entries(wideRows(numbersFrom(from, end))).filter(([name]) => plain.some((each) => each.name === name)),
        );
      await create(table, encodeStream(schemaOf(plain), [rowsOf(0, 6)]));
      for (const [i, column] of plain.slice(1).entries()) {
        const fields = plain.map((each) => (each === column ? field(each.name, nothing) : each));
        const rows = { ...rowsOf(4, 8), [column.name]: [null, null, null, null] };
        // Two batches, of which one has no rows.
        const empty = Object.fromEntries(Object.keys(rows).map((name) => [name, []]));
        succeeded(await merge(table, encodeStream(schemaOf(fields), [empty, rows], codec), 'on=n'));
        const predicate = `n >= 4 AND ${column.name} IS NULL`;
        const { body } = await service.post<unknown>(`/v1/table/${table}/count_rows`, { predicate });
        assert.equal(body, 4, `${i}: ${column.type.kind}`);
      }
    });
  }

  test('goes with a source that leaves out other columns, which keep what they have', async () => {
    await create(
      'part',
      encodeStream(schemaOf([key, field('a', text), field('b', text)]), [{ id: [1n], a: ['a'], b: ['b'] }]),
    );
    succeeded(await merge('part', encodeStream(schemaOf([field('b', nothing), key]), [{ b: [null], id: [1n] }])));
    assert.deepEqual(await storedRows(service, 'part'), [{ id: 1, a: 'a', b: null }]);
  });

  test('shares commits with sources that send the same column typed', async () => {
    const typed = schemaOf([key, field('a', text)]);
    const untyped = schemaOf([key, field('a', nothing)]);
    await create('shared', encodeStream(typed, [{ id: [-1n], a: ['first'] }]));
    const clients = numbersFrom(0, 40);
    const ids = (client: number): bigint[] => numbersFrom(10 * client, 10 * client + 10).map(BigInt);
    for (const isTypedEven of [true, false]) {
      const bodyOf = (client: number): Buffer =>
        (client % 2 === 0) === isTypedEven
          ? encodeStream(typed, [{ id: ids(client), a: ids(client).map((id) => `${id}`) }])
          : encodeStream(untyped, [{ id: ids(client), a: ids(client).map(() => null) }]);
      const answers = await Promise.all(clients.map((client) => merge('shared', bodyOf(client))));
      for (const { body } of answers) assert.equal(body.num_rows, 10, JSON.stringify(body));
      const stored = new Map((await storedRows(service, 'shared')).map(({ id, a }) => [Number(id), a]));
      assert.equal(stored.size, 401);
      for (const client of clients) {
        const isTyped = (client % 2 === 0) === isTypedEven;
        for (const id of ids(client)) assert.equal(stored.get(Number(id)), isTyped ? `${id}` : null);
      }
    }
  });

  test('is a key of NULLs, which match nothing', async () => {
    await create('keyed', encodeStream(schemaOf([key, field('a', text)]), [{ id: [1n, null], a: ['x', 'y'] }]));
    const source = encodeStream(schemaOf([field('id', nothing), field('a', text)]), [
      { id: [null, null], a: ['p', 'q'] },
    ]);
    assert.equal((await merge('keyed', source)).body.num_inserted_rows, 2);
    assert.equal((await merge('keyed', idsFromPyarrow)).body.num_inserted_rows, 2);
    assert.equal((await storedRows(service, 'keyed')).length, 6);
  });

  test('may hold a nested key, which is then NULL in every row', async () => {
    const source = encodeStream(schemaOf([field('m', nothing), field('id', int32)]), [
      { m: [null, null], id: [8n, 9n] },
    ]);
    await create('nested_key', encodeStream(schemaOf([nested, key]), [{ m: [{ a: 1n, b: 'x' }], id: [1n] }]));
    assert.equal((await merge('nested_key', source, 'on=m.a')).body.num_inserted_rows, 2);
    assert.equal((await storedRows(service, 'nested_key')).length, 3);
    refused(await merge('nested_key', source, 'on=m.c'), 400, 12, /m\.c/);
  });

  test('is refused where the table does not allow NULL, with the column', async () => {
    const nested = (type: typeof nothing | typeof text, nullable: boolean): Field =>
      field('s', { kind: 'struct' }, { children: [field('in', type, { nullable })] });
    await create(
      'strict',
      encodeStream(schemaOf([key, field('a', text, { nullable: false })]), [{ id: [1n], a: ['x'] }]),
    );
    const top = encodeStream(schemaOf([key, field('a', nothing)]), [{ id: [1n], a: [null] }]);
    refused(
      await merge('strict', top),
      400,
      20,
      /^column a is of type null in the source, and the table does not allow NULL/,
    );
    await create('inner', encodeStream(schemaOf([key, nested(text, false)]), [{ id: [1n], s: [{ in: 'x' }] }]));
    const inner = encodeStream(schemaOf([key, nested(nothing, true)]), [{ id: [1n], s: [{ in: null }] }]);
    refused(await merge('inner', inner), 400, 20, /^column s\.in is of type null in the source/);
  });

  test('goes beside a dictionary-encoded column, and is refused for one', async () => {
    const dictionary = { id: 7n, index: { bitWidth: 8, signed: true }, ordered: false } as const;
    const encoded = field('d', text, { dictionary });
    const rows = { id: [1n, 2n], d: ['x', 'y'], a: ['p', 'q'] };
    await create('encoded', encodeStream(schemaOf([key, encoded, field('a', text)]), [rows]));
    const beside = schemaOf([field('a', nothing), key, encoded]);
    const batches = [
      { a: [null], id: [2n], d: ['z'] },
      { a: [null, null], id: [3n, 4n], d: ['x', null] },
    ];
    for (const codec of ['none', 'zstd'] satisfies Codec[]) {
      succeeded(await merge('encoded', encodeStream(beside, batches, codec)));
      assert.deepEqual(await storedRows(service, 'encoded'), [
        { id: 1, d: 'x', a: 'p' },
        { id: 2, d: 'z', a: null },
        { id: 3, d: 'x', a: null },
        { id: 4, d: null, a: null },
      ]);
    }
    const instead = encodeStream(schemaOf([key, field('d', nothing), field('a', text)]), [
      { id: [1n], d: [null], a: ['y'] },
    ]);
    refused(await merge('encoded', instead), 400, 20, /^column d is of type null, and dictionary-encoded in the table/);
  });

  test('is refused by its name if it is dictionary-encoded', async () => {
    await create(
      'empties',
      encodeStream(schemaOf([key, field('d', text), field('a', text)]), [{ id: [1n], d: ['x'], a: ['p'] }]),
    );
    const dictionary = { id: 7n, index: { bitWidth: 32, signed: true }, ordered: false } as const;
    const source = schemaOf([key, field('d', nothing, { dictionary }), field('a', text)]);
    const answer = await merge('empties', encodeStream(source, [{ id: [1n, 2n], d: [null, null], a: ['q', 'r'] }]));
    refused(answer, 400, 20, /^column d is utf8 in the table and dictionary<int32, null> in the source/);
  });

  test('takes no more memory in a list than a client could have sent, whatever it stands for', async () => {
    const vector = field(
      'item',
      { kind: 'fixed_size_list', listSize: 1_000 },
      { children: [field('item', { kind: 'float', bitWidth: 64 })] },
    );
    await create('deep', encodeStream(schemaOf([key, list(vector)]), [{ id: [1n], tags: [[]] }]));
    const elements = Array.from({ length: 100_000 }, () => null);
    const source = encodeStream(schemaOf([key, list(field('item', nothing))]), [{ id: [2n], tags: [elements] }]);
    refused(await merge('deep', source), 400, 20, /type null 100000 times inside another column/);
  });

  test('leaves the checks of the other columns as they are', async () => {
    await create(
      'lies',
      encodeStream(schemaOf([key, field('a', text), field('b', text)]), [{ id: [1n], a: ['x'], b: ['y'] }]),
    );
    const source = encodeStream(schemaOf([key, field('a', text), field('b', nothing)]), [
      { id: [1n], a: ['LIES'], b: [null] },
    ]);
    source[source.indexOf('LIES')] = 0xff;
    refused(await merge('lies', source), 400, 13, /column a: /);
    const other = encodeStream(schemaOf([key, field('a', int32), field('b', nothing)]), [
      { id: [1n], a: [1n], b: [null] },
    ]);
    refused(await merge('lies', other), 400, 20, /^column a is utf8 in the table and int32 in the source/);
  });

  test('is no table by itself, created or declared', async () => {
    const source = encodeStream(schemaOf([field('x', nothing), field('y', nothing)]), [{ x: [null], y: [null] }]);
    const says = /^every column is of type null \(x, y\), which can hold no value/;
    refused(await service.post('/v1/table/void/create', source), 400, 20, says);
    refused(await service.post('/v1/table/void/describe'), 404, 4);
    succeeded(await service.post('/v1/table/later/declare'));
    refused(await merge('later', source, 'on=x'), 400, 20, says);
  });
});
