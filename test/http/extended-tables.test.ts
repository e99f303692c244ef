import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import {
  type DataType,
  Dictionary,
  Field,
  FixedSizeList,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  List,
  Null,
  RecordBatch,
  Schema,
  Struct,
  Table,
  TimestampMicrosecond,
  tableToIPC,
  Utf8,
} from 'apache-arrow';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { columns, merge, refused, startWith, streamOf, typed, written } from './extending.ts';
import { part, transact } from './multipart-body.ts';
import { type Row, storedRows, stream } from './rows.ts';

test('a column that the table lacks comes with the rows, in one version, and is NULL in the others (P1, P4)', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1, 2], a: [1, 2] }));
  const sent = stream({ b: ['x', 'y'], id: [2, 3], c: typed(new Float64(), [0.5, null]) });
  const answer = await merge(service, sent);
  assert.deepEqual(
    [answer.version, answer.num_updated_rows, answer.num_inserted_rows, answer.num_deleted_rows],
    [2, 1, 1, 0],
  );
  assert.deepEqual(answer.added_columns, [
    { name: 'b', type: 'utf8' },
    { name: 'c', type: 'float64' },
  ]);
  assert.deepEqual(await columns(service), ['id: int32', 'a: int32', 'b: string', 'c: double']);
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, a: 1, b: null, c: null },
    { id: 2, a: 2, b: 'x', c: 0.5 },
    { id: 3, a: null, b: 'y', c: null },
  ]);
  const again = await merge(service, sent);
  assert.deepEqual([again.version, again.num_updated_rows, again.added_columns], [3, 2, undefined]);
});

test('without the rule, and with schema=strict, a column that the table lacks is refused, and nothing is written', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  const wider = stream({ id: [1], b: ['x'] });
  await refused(service, 'merge_insert?on=id', wider, /column b does not exist/);
  await refused(service, 'merge_insert?on=id&schema=strict', wider, /column b does not exist/);
  await refused(service, 'insert', wider, /column b does not exist/);
  await refused(service, 'merge_insert?on=id&schema=loose', wider, /schema: expected one of strict, extend/);
  await refused(service, 'insert?schema=loose', wider, /schema: expected one of strict, extend/);
});

test('the rule comes as a header, and as a default of the table, which the answer says', async (t) => {
  const properties = encodeURIComponent(JSON.stringify({ 'lancegate.schema_mode': 'extend' }));
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }), `?properties=${properties}`);
  const answer = await merge(service, stream({ id: [1], b: ['x'] }), '');
  assert.deepEqual(
    [answer.table_defaults, answer.added_columns],
    [{ schema: 'extend' }, [{ name: 'b', type: 'utf8' }]],
  );
  const inserted = await written(service, 'insert', stream({ id: [2], c: [1] }));
  assert.deepEqual([inserted.table_defaults, inserted.version], [{ schema: 'extend' }, 3]);
  await refused(service, 'merge_insert?on=id&schema=', stream({ id: [1], d: ['x'] }), /column d does not exist/);
  const header = { 'x-lancegate-schema': 'extend' };
  const byHeader = await merge(service, stream({ id: [1], d: ['x'] }), '', header);
  assert.deepEqual([byHeader.table_defaults, byHeader.version], [undefined, 4]);
  assert.equal((await written(service, 'insert', stream({ id: [3], e: ['x'] }), header)).version, 5);
});

test('a column of a source is nullable in the table, whatever the source says of it, also inside of it', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  const inner = new Struct([new Field('x', new Int32(), false)]);
  const schema = new Schema([
    new Field('id', new Int32(), false),
    new Field('b', new Int32(), false),
    new Field('s', inner, false),
  ]);
  const rows = new Table({ id: typed(new Int32(), [2]), b: typed(new Int32(), [5]), s: typed(inner, [{ x: 1 }]) });
  const batches = rows.batches.map(({ data }) => new RecordBatch(schema, data));
  await merge(service, Buffer.from(tableToIPC(new Table(schema, batches), 'stream')));
  assert.deepEqual((await columns(service)).slice(1), ['b: int32', 's: struct']);
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, b: null, s: null },
    { id: 2, b: 5, s: { x: 1 } },
  ]);
});

test('a column of type null that the table lacks is left out: nothing is lost by it', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  const answer = await merge(service, streamOf({ id: typed(new Int32(), [1, 2]), n: typed(new Null(), [null, null]) }));
  assert.deepEqual([answer.num_updated_rows, answer.num_inserted_rows, answer.added_columns], [1, 1, undefined]);
  assert.deepEqual(await columns(service), ['id: int32']);
});

test('vectors, lists, times, dictionaries and structs come as new columns', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  const point = new Struct([new Field('x', new Int32(), true)]);
  const sent = stream({
    id: [2],
    v: typed(new FixedSizeList(2, new Field('item', new Float32(), true)), [[1, 2]]),
    l: typed(new List(new Field('item', new Utf8(), true)), [['a']]),
    at: typed(new TimestampMicrosecond('UTC'), [0]),
    d: typed(new Dictionary(new Utf8(), new Int32()), ['red']),
    s: typed(point, [{ x: 1 }]),
  });
  await merge(service, sent);
  assert.deepEqual(
    (await columns(service)).map((column) => column.replace(/: (\w+).*/, ' $1')),
    ['id int32', 'v fixed_size_list', 'l list', 'at timestamp', 'd dict', 's struct'],
  );
  const [first, second] = await storedRows(service, 't');
  assert.deepEqual(first, { id: 1, v: null, l: null, at: null, d: null, s: null });
  assert.deepEqual(second, { id: 2, v: [1, 2], l: ['a'], at: 0, d: 'red', s: { x: 1 } });
});

test('names that no table can have are refused', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  for (const name of ['a.b', '_rowid', '__lancegate_x', 'a`b'])
    await refused(service, 'merge_insert?on=id&schema=extend', stream({ id: [1], [name]: [1] }), /name|reserved/);
  const many = Object.fromEntries(Array.from({ length: 9_999 }, (_, i) => [`c${i}`, [1]]));
  await merge(service, stream({ id: [1], ...many }));
  await refused(
    service,
    'merge_insert?on=id&schema=extend',
    stream({ id: [1], d: [1] }),
    /too many: a table has at most 10000 columns/,
  );
});

test('inserts extend too, and so do merges and inserts among several operations, each of which says so', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  const inserted = await written(service, 'insert?schema=extend', stream({ id: [2], b: ['x'] }));
  assert.deepEqual(
    [inserted.version, inserted.num_inserted_rows, inserted.added_columns],
    [2, 1, [{ name: 'b', type: 'utf8' }]],
  );
  const narrower = await written(service, 'insert?schema=extend', stream({ id: [3] }));
  assert.deepEqual([narrower.version, narrower.added_columns], [3, undefined]);
  const answer = await transact(service, 't', [
    part('one', { operation: 'merge_insert', on: 'id', source: 'r', schema: 'extend' }),
    part('two', { operation: 'update', predicate: 'c = 5', updates: [['b', "'five'"]] }),
    part('three', { operation: 'insert', source: 'q', schema: 'extend' }),
    part('r', stream({ id: [1, 2], c: [5, 6] })),
    part('q', stream({ id: [9], d: [1], c: typed(new Int64(), [2n ** 40n]) })),
  ]);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  const operations = answer.body.operations as Row[];
  assert.deepEqual(
    operations.map(({ added_columns, widened_columns }) => [added_columns, widened_columns]),
    [
      [[{ name: 'c', type: 'int32' }], undefined],
      [undefined, undefined],
      [[{ name: 'd', type: 'int32' }], [{ name: 'c', type: 'int64', was: 'int32' }]],
    ],
  );
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, b: 'five', c: 5, d: null },
    { id: 2, b: 'x', c: 6, d: null },
    { id: 3, b: null, c: null, d: null },
    { id: 9, b: null, c: 1099511627776, d: 1 },
  ]);
  const strict = await transact(service, 't', [
    part('one', { operation: 'merge_insert', on: 'id', source: 'r' }),
    part('r', stream({ id: [1], e: [5] })),
  ]);
  assert.equal(strict.status, 400);
});

test('the newest and the last row of a key stay while columns come', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1, 2], v: [5, 5] }));
  const sent = stream({ id: [1, 2, 2], v: typed(new Int64(), [4n, 6n, 7n]), b: ['late', 'mid', 'new'] });
  const answer = await merge(service, sent, '&schema=extend&version_column=v');
  assert.deepEqual([answer.num_stale_rows, answer.num_duplicate_rows, answer.num_updated_rows], [1, 1, 1]);
  const late = await merge(service, stream({ id: [2], v: [6], b: ['late'] }), '&schema=extend&version_column=v');
  assert.equal(late.num_stale_rows, 1);
  const last = await merge(service, stream({ id: [1, 1], c: [1, 2] }), '&schema=extend&on_duplicate=last');
  assert.equal(last.num_duplicate_rows, 1);
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, v: 5, b: null, c: 2 },
    { id: 2, v: 7, b: 'new', c: null },
  ]);
});

test('a retry with the same key adds nothing, and gets the same answer (P6)', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  const sent = stream({ id: [1, 2], b: ['x', 'y'] });
  for (const [path, key] of [
    ['merge_insert?on=id&schema=extend', 'k'],
    ['insert?schema=extend', 'l'],
  ] as const) {
    const rows = key === 'k' ? sent : stream({ id: [3], c: [1] });
    const { context: _, ...first } = await written(service, path, rows, { 'idempotency-key': key });
    const { context: __, ...again } = await written(service, path, rows, { 'idempotency-key': key });
    assert.deepEqual(again, first);
    assert.notEqual(first.added_columns, undefined);
  }
  assert.equal((await storedRows(service, 't')).length, 3);
});

test('a branch gets columns that main does not have', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1] }));
  assert.equal((await service.post('/v1/table/t/branches/create', { name: 'b' })).status, 200);
  await merge(service, stream({ id: [1], c: ['x'] }), '&schema=extend&branch=b');
  assert.deepEqual([await columns(service), await columns(service, 'b')], [['id: int32'], ['id: int32', 'c: string']]);
});

test('a table that is declared with columns gets those that its first rows have besides', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const schema = JSON.stringify({ fields: [{ name: 'id', type: { type: 'int32' }, nullable: true }] });
  const properties = { 'lancegate.schema': schema, 'lancegate.schema_mode': 'extend' };
  assert.equal((await service.post('/v1/table/t/declare', { properties })).status, 200);
  await merge(service, stream({ id: [1], c: ['x'] }), '');
  assert.deepEqual(await columns(service), ['id: int32', 'c: string']);
});

test('rows keep their ids where columns come (stable row ids)', async (t) => {
  const options = encodeURIComponent(JSON.stringify({ new_table_enable_stable_row_ids: 'true' }));
  const service = await startWith(
    (clean) => t.after(clean),
    stream({ id: [1, 2], a: [1, 2] }),
    `?storage_options=${options}`,
  );
  await merge(service, stream({ id: [2, 3], b: ['x', 'y'], a: typed(new Float64(), [0.5, 1]) }));
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, a: 1, b: null },
    { id: 2, a: 0.5, b: 'x' },
    { id: 3, a: 1, b: 'y' },
  ]);
});

test('exist_ok takes a table that has more columns, or could get those of the source, where it may be extended', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1], a: [1] }));
  const wanted = stream({ id: [1], b: ['x'] });
  assert.equal((await service.post('/v1/table/t/create?mode=exist_ok', wanted)).status, 400);
  assert.equal((await service.post('/v1/table/t/create?mode=exist_ok&schema=extend', wanted)).status, 200);
  assert.deepEqual(await columns(service), ['id: int32', 'a: int32']);
  const other = stream({ id: ['x'] });
  assert.equal((await service.post('/v1/table/t/create?mode=exist_ok&schema=extend', other)).status, 400);
});

test('sources that bring columns at once all succeed, with all of their columns and exact counts (P2, P4, P5)', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [0], n: typed(new Int8(), [0]) }));
  const answers = await Promise.all(
    Array.from({ length: 12 }, async (_, i) => {
      const id = [i, 100 + i];
      const n = typed([new Int8(), new Int16(), new Int32(), new Float64()][i % 4] as DataType, [i, i]);
      const own = { [`own${i % 3}`]: [i, i], both: [`${i}`, `${i}`] };
      return merge(service, stream({ id, n, ...own }));
    }),
  );
  assert.equal(
    answers.reduce((sum, { num_inserted_rows: rows }) => sum + Number(rows), 0),
    23,
  );
  assert.equal(answers.filter(({ added_columns: added }) => JSON.stringify(added)?.includes('"both"')).length, 1);
  assert.deepEqual([...(await columns(service))].sort(), [
    'both: string',
    'id: int32',
    'n: double',
    'own0: int32',
    'own1: int32',
    'own2: int32',
  ]);
  const rows = await storedRows(service, 't');
  assert.equal(rows.length, 24);
  for (const { id, n, both, ...own } of rows)
    assert.deepEqual([Number(id) % 100, `${n}`, own[`own${(Number(id) % 100) % 3}`]], [n, both, n]);
});

const policy = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"feeder", action in [Action::"MergeInsertIntoTable", Action::"InsertIntoTable"], resource);
permit (principal == Principal::"adder", action in [Action::"MergeInsertIntoTable", Action::"InsertIntoTable", Action::"AlterTableAddColumns"], resource);
`;

test('who may not add columns is refused by the name of the right, and only where one is lacking (P9)', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const file = join(folder, 'policy.cedar');
  writeFileSync(file, policy);
  const service = await startTestService((clean) => t.after(clean), { POLICY_FILE: file });
  assert.equal((await service.post('/v1/table/t/create', stream({ id: [1], a: [1] }))).status, 200);
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:write', subject)}` });
  const more = stream({ id: [2], b: ['x'] });
  const longer = stream({ id: [2], a: typed(new Int64(), [1n]) });
  for (const path of ['merge_insert?on=id&schema=extend', 'insert?schema=extend']) {
    const attempt = async (rows: Buffer, subject: string) =>
      service.post(`/v1/table/t/${path}`, rows, await as(subject));
    const answer = await attempt(more, 'feeder');
    assert.equal(answer.status, 403);
    assert.match(JSON.stringify(answer.body), /AlterTableAddColumns/);
    const alter = await attempt(longer, 'adder');
    assert.equal(alter.status, 403);
    assert.match(JSON.stringify(alter.body), /AlterTableAlterColumns/);
    assert.equal((await attempt(stream({ id: [2], a: [1] }), 'feeder')).status, 200);
  }
  assert.deepEqual(await columns(service), ['id: int32', 'a: int32']);
  assert.equal(
    (await service.post('/v1/table/t/merge_insert?on=id&schema=extend', more, await as('adder'))).status,
    200,
  );
  assert.equal(
    (await service.post('/v1/table/t/merge_insert?on=id&schema=extend', more, await as('feeder'))).status,
    200,
  );
});

test('a table with files of the first version of Lance is not extended, and the refusal says why', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const connection = await connect(service.tablesFolder);
  const storageOptions = { new_table_data_storage_version: 'legacy' };
  (await connection.createTable('old', [{ id: 1 }], { storageOptions })).close();
  assert.equal((await service.post('/v1/table/t/register', { location: 'old.lance' })).status, 200);
  await refused(
    service,
    'insert?schema=extend',
    stream({ id: typed(new Float64(), [2]), more: [1] }),
    /first version of Lance/,
  );
});
