import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type DataType,
  Decimal,
  Field,
  Float16,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  LargeUtf8,
  List,
  Null,
  Struct,
  TimestampMicrosecond,
  Uint8,
  Uint32,
  Uint64,
  Utf8,
} from 'apache-arrow';
import { startTestService } from '#test/fixtures/service.ts';
import { columns, merge, refused, startWith, streamOf, typed } from './extending.ts';
import { type Row, storedRows, stream } from './rows.ts';

const wider: readonly (readonly [table: DataType, source: DataType, becomes: string])[] = [
  [new Int8(), new Int16(), 'int16'],
  [new Int8(), new Int64(), 'int64'],
  [new Uint8(), new Uint32(), 'uint32'],
  [new Uint8(), new Int16(), 'int16'],
  [new Int8(), new Uint8(), 'int16'],
  [new Uint32(), new Int32(), 'int64'],
  [new Int32(), new Float64(), 'double'],
  [new Uint32(), new Float64(), 'double'],
  [new Int16(), new Float32(), 'float'],
  [new Int32(), new Float32(), 'double'],
  [new Float16(), new Float32(), 'float'],
  [new Float32(), new Float64(), 'double'],
  [new Utf8(), new LargeUtf8(), 'large_string'],
  [new Decimal(2, 9, 128), new Decimal(2, 18, 128), 'decimal:128:18:2'],
  [new Null(), new Int32(), 'int32'],
];

const numberOf = (type: DataType, value: number): unknown => {
  if (type instanceof Null) return null;
  if (type instanceof Utf8 || type instanceof LargeUtf8) return `${value}`;
  if (type instanceof Decimal) return Uint32Array.of(value * 100, 0, 0, 0);
  return type instanceof Int64 || type instanceof Uint64 ? BigInt(value) : value;
};

for (const [table, source, becomes] of wider)
  test(`a column of ${table} gets room for values of ${source}, and keeps its own`, async (t) => {
    const service = await startWith(
      (clean) => t.after(clean),
      streamOf({
        id: typed(new Int32(), [1, 2, 3]),
        v: typed(table, [numberOf(table, 7), numberOf(table, 8), null]),
        z: typed(new Int32(), [1, 2, 3]),
      }),
    );
    const answer = await merge(
      service,
      stream({ id: [2, 4], v: typed(source, [numberOf(source, 9), numberOf(source, 10)]) }),
    );
    assert.deepEqual([answer.version, answer.num_updated_rows, answer.num_inserted_rows], [2, 1, 1]);
    assert.equal((answer.widened_columns as Row[] | undefined)?.[0]?.name, 'v');
    assert.ok((await columns(service)).includes(`v: ${becomes}`), `${await columns(service)}`);
    const narrow = streamOf({ id: typed(new Int32(), [5]), v: typed(table, [numberOf(table, 11)]) });
    const later = await merge(service, narrow);
    assert.deepEqual([later.version, later.widened_columns], [3, undefined]);
    const { body } = await service.post<{ rows: Row[] }>(
      '/v1/table/t/query',
      { k: 9, columns: ['id', 'z', 'v'] },
      { accept: 'application/json' },
    );
    const { rows } = body;
    const shown = rows
      .toSorted((a, b) => Number(a.id) - Number(b.id))
      .map(({ id, z, v }) => [id, z, v === null ? v : Number(v)]);
    const empty = table instanceof Null;
    assert.deepEqual(shown, [
      [1, 1, empty ? null : 7],
      [2, 2, 9],
      [3, 3, null],
      [4, null, 10],
      [5, null, empty ? null : 11],
    ]);
  });

const unlike: readonly (readonly [table: DataType, source: DataType])[] = [
  [new Int64(), new Float64()],
  [new Float64(), new Int64()],
  [new Uint64(), new Int64()],
  [new Int32(), new Utf8()],
  [new Utf8(), new Int32()],
  [new TimestampMicrosecond(), new Int32()],
];

for (const [table, source] of unlike)
  test(`no type has room for ${table} and ${source}: it is refused, by the names of both`, async (t) => {
    const service = await startWith((clean) => t.after(clean), stream({ id: [1], v: typed(table, [null]) }));
    await refused(
      service,
      'merge_insert?on=id&schema=extend',
      stream({ id: [2], v: typed(source, [null]) }),
      /column v is \S+ in the table and \S+ in the source/,
    );
  });

const structOf = (fields: Readonly<Record<string, DataType>>): Struct =>
  new Struct(Object.entries(fields).map(([name, type]) => new Field(name, type, true)));

test('a struct gets no new fields and no wider ones, and the refusal says so; narrower ones are taken', async (t) => {
  const there = structOf({ x: new Int64(), y: new Utf8() });
  const service = await startWith((clean) => t.after(clean), stream({ id: [1], s: typed(there, [{ x: 1n, y: 'a' }]) }));
  const more = stream({ id: [2], s: typed(structOf({ x: new Int64(), z: new Utf8() }), [{ x: 1n, z: 'a' }]) });
  const path = 'merge_insert?on=id&schema=extend';
  await refused(service, path, more, /s\.z does not exist in the table, and a struct gets no new fields/);
  await refused(
    service,
    path,
    stream({ id: [2], s: typed(structOf({ x: new Float64() }), [{ x: 1 }]) }),
    /column s is struct/,
  );
  await merge(service, stream({ id: [1, 2], s: typed(structOf({ x: new Int32() }), [{ x: 7 }, { x: 8 }]), c: [1, 2] }));
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, s: { x: 7, y: 'a' }, c: 1 },
    { id: 2, s: { x: 8, y: null }, c: 2 },
  ]);
  const narrow = await merge(service, stream({ id: [1], s: typed(structOf({ x: new Int32() }), [{ x: 9 }]) }));
  assert.equal(narrow.num_updated_rows, 1);
  assert.deepEqual((await storedRows(service, 't'))[0], { id: 1, s: { x: 9, y: 'a' }, c: 1 });
});

test('the values of a list get room; the structs in a list get no new fields', async (t) => {
  const list = (type: DataType) => new List(new Field('item', type, true));
  const service = await startWith(
    (clean) => t.after(clean),
    stream({
      id: [1],
      l: typed(list(new Int32()), [[1, 2]]),
      p: typed(list(structOf({ x: new Int32() })), [[{ x: 1 }]]),
    }),
  );
  await merge(service, stream({ id: [2], l: typed(list(new Int64()), [[3n]]) }));
  await merge(service, stream({ id: [3], l: typed(list(new Int32()), [[4]]) }));
  const rows = await storedRows(service, 't');
  assert.deepEqual(
    rows.map(({ l }) => l),
    [[1, 2], [3], [4]],
  );
  const more = stream({ id: [4], p: typed(list(structOf({ x: new Int32(), y: new Int32() })), [[{ x: 1, y: 2 }]]) });
  await refused(
    service,
    'merge_insert?on=id&schema=extend',
    more,
    /p\.item\.y does not exist in the table, and a struct gets no new fields/,
  );
});

test('a key stays the same key: it gets longer integers and texts, and becomes no float', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1, 2], a: [1, 2] }));
  await refused(
    service,
    'merge_insert?on=id&schema=extend',
    stream({ id: typed(new Float64(), [1]), a: [1] }),
    /id is int32 in the table, and as a key it does not become float64/,
  );
  const answer = await merge(service, stream({ id: typed(new Int64(), [2n, 2n ** 40n]), a: [20, 30] }));
  assert.deepEqual([answer.num_updated_rows, answer.num_inserted_rows], [1, 1]);
  const later = await merge(service, stream({ id: [1, 2], a: [10, 21] }));
  assert.deepEqual([later.num_updated_rows, later.num_inserted_rows], [2, 0]);
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, a: 10 },
    { id: 1099511627776, a: 30 },
    { id: 2, a: 21 },
  ]);
  await refused(
    service,
    'merge_insert?on=k&schema=extend',
    stream({ k: [1], a: [1] }),
    /on: the table has no column k/,
  );
});

test('a column with an index keeps its type, and the refusal names the index', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1, 2], a: [1, 2], b: [1, 2] }));
  for (const column of ['a', 'b'])
    assert.equal((await service.post('/v1/table/t/create_scalar_index', { column, index_type: 'BTREE' })).status, 200);
  for (let i = 0; i < 200; i += 1) {
    const { body } = await service.post<{ indexes: unknown[] }>('/v1/table/t/index/list', {});
    if (body.indexes.length === 2) break;
  }
  await refused(
    service,
    'merge_insert?on=id&schema=extend',
    stream({ id: [1], a: typed(new Int64(), [1n]) }),
    /its index a_idx would be lost/,
  );
  await refused(
    service,
    'merge_insert?on=id&schema=extend',
    stream({ id: [1], b: typed(new Float64(), [1]) }),
    /its index b_idx would be lost/,
  );
});

test('a field in a struct keeps its type, and the table answers filters by its other fields', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const rows = [1, 2].map((id) => ({ id, s: { a: id, b: 'x' } }));
  assert.equal((await service.post('/v1/table/t/create', rows)).status, 200);
  const answer = await service.post('/v1/table/t/alter_columns', {
    alterations: [{ path: 's.b', data_type: { type: 'large_string' } }],
  });
  assert.deepEqual([answer.status, answer.body.code], [400, 13]);
  assert.match(String(answer.body.error), /s\.b is in a struct/);
  assert.equal((await service.post('/v1/table/t/count_rows', { predicate: 's.a > 1' })).body as unknown, 1);
});
