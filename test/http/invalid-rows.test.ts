import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Field,
  FixedSizeList,
  Float32,
  Int32,
  Schema,
  Struct,
  Table,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { part, transact } from './multipart-body.ts';
import { type Row, storedRows, stream } from './rows.ts';

type Clean = (end: () => void | Promise<void>) => void;
const json = { 'content-type': 'application/json' };
const ndjson = { 'content-type': 'application/x-ndjson' };
const report = '&on_invalid=report';

/** A table with a column without NULL, a vector and a struct with a field without NULL. */
async function startWithPeople(clean: Clean, create = ''): Promise<TestService> {
  const service = await startTestService(clean);
  const schema = new Schema([
    new Field('id', new Int32(), true),
    new Field('name', new Utf8(), false),
    new Field('v', new FixedSizeList(2, new Field('item', new Float32(), true)), true),
    new Field('s', new Struct([new Field('k', new Int32(), false)]), true),
  ]);
  const none = Buffer.from(tableToIPC(new Table(schema), 'stream'));
  const made = await service.post(`/v1/table/t/create${create}`, none);
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return service;
}

const send = (service: TestService, body: Buffer | string, query: string, headers = {}) =>
  service.post(`/v1/table/t/merge_insert?on=id${query}`, Buffer.from(body), headers);

async function merge(service: TestService, body: Buffer | string, query: string, headers = {}): Promise<Row> {
  const answer = await send(service, body, query, headers);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}

const reported = (answer: Row) => (answer.invalid_rows as readonly { row: number; reason: string }[]).map(shown);
const shown = ({ row, reason }: { row: number; reason: string }): string => `${row}: ${reason}`;
const ids = async (service: TestService) => (await storedRows(service, 't')).map(({ id }) => id);

const mixed = [
  { id: 1, name: 'a', v: [1, 2] },
  { id: 'two', name: 'b', v: [1, 2] },
  { id: 3, name: null, v: [1, 2] },
  { id: 4, name: 'd', v: [1, 2, 3] },
  { id: 5, name: 'e', v: null },
];

const reasonsOfMixed = [
  /^2: row 2, column id: this text is no int32$/,
  /^3: row 3, column name: is missing or NULL/,
  /^4: row 4, column v: has 3 values where a vector of 2 belongs$/,
];

function matchAll(texts: readonly string[], patterns: readonly RegExp[]): void {
  assert.equal(texts.length, patterns.length, texts.join('\n'));
  for (const [i, pattern] of patterns.entries()) assert.match(texts[i] ?? '', pattern);
}

test('rows of JSON that break a rule are reported with number and reason, and the others are committed (P2, P4)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const answer = await merge(service, JSON.stringify(mixed), report, json);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows, answer.num_rows], [3, 2, 2]);
  matchAll(reported(answer), reasonsOfMixed);
  assert.deepEqual(await ids(service), [1, 5]);
});

test('without the rule one row that does not fit refuses all, and no answer speaks of invalid rows', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  for (const query of ['', '&on_invalid=refuse', '&on_invalid='])
    assert.equal((await send(service, JSON.stringify(mixed), query, json)).status, 400);
  assert.deepEqual(await ids(service), []);
  const answer = await merge(service, JSON.stringify(mixed.slice(0, 1)), '', json);
  assert.ok(!('num_invalid_rows' in answer) && !('invalid_rows' in answer));
});

test('rows of CSV and of lines are counted without names and empty lines, and the reason has the line', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const csv = await merge(service, 'id,name\n1,a\nx,b\n3,c\n4\n', report, { 'content-type': 'text/csv' });
  matchAll(reported(csv), [/^2: line 3, column id/, /^4: line 5: it has 1 cell/]);
  const lines = '{"id":1,"name":"a"}\n\n{"id":2,"name":7}\nno json\n{"id":6,"name":"f"}';
  const answer = await merge(service, lines, report, ndjson);
  assert.deepEqual([answer.num_invalid_rows, answer.num_updated_rows, answer.num_inserted_rows], [2, 1, 1]);
  matchAll(reported(answer), [/^2: line 3, column name/, /^3: line 4 is not JSON/]);
});

test('rows with a column that the table has not are reported, of the first rows and of later ones', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const row = (id: number, extra = {}) => JSON.stringify({ id, name: 'a', ...extra });
  const answer = await merge(service, [row(1), row(2, { nane: 'b' }), row(3)].join('\n'), report, ndjson);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows], [1, 2]);
  matchAll(reported(answer), [/^2: line 2: column nane does not exist in the table/]);
  const many = Array.from({ length: 20_000 }, (_, id) => row(id, id === 19_000 ? { nane: 'b' } : {}));
  const later = await merge(service, many.join('\n'), report, ndjson);
  assert.deepEqual([later.num_invalid_rows, later.num_rows], [1, 19_999]);
  matchAll(reported(later), [/^19001: line 19001: column "nane" is in none of the first rows/]);
});

test('a text that cannot be cut into rows is refused as a whole', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  for (const [body, type] of [
    ['[{"id":1,"name":"a"},', 'application/json'],
    ['[{"id":1,"name":"a"} {}]', 'application/json'],
    ['id,name\n1,"a\n', 'text/csv'],
  ] as const)
    assert.equal((await send(service, body, report, { 'content-type': type })).status, 400, body);
  assert.deepEqual(await ids(service), []);
});

test('rows of Arrow with NULL where the table allows none are reported, inside of structs too (P2)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const struct = new Struct([new Field('k', new Int32(), true)]);
  const body = stream({
    id: [1, 2, 3, 4],
    name: vectorFromArray(['a', null, 'c', 'd'], new Utf8()),
    s: vectorFromArray([{ k: 1 }, { k: 2 }, { k: null }, null], struct) as never,
  });
  assert.equal((await send(service, body, '')).status, 400);
  const answer = await merge(service, body, report);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows], [2, 2]);
  matchAll(reported(answer), [/^2: row 2, column name holds a NULL/, /^3: row 3, column s holds a NULL/]);
  assert.deepEqual(await ids(service), [1, 4]);
});

test('a source of invalid rows alone changes nothing, and is answered with their number', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const version = (await merge(service, JSON.stringify(mixed), report, json)).version;
  const arrow = stream({ id: [7, 8], name: vectorFromArray([null, null], new Utf8()) });
  const answers = [
    await merge(service, JSON.stringify(mixed.slice(1, 4)), report, json),
    await merge(service, arrow, report),
  ];
  assert.deepEqual(
    answers.map((answer) => [answer.num_invalid_rows, answer.num_rows, answer.version]),
    [
      [3, 0, version],
      [2, 0, version],
    ],
  );
});

test('where a key is required a row without one is refused, or reported under its number in the source', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const sent = [...mixed, { id: null, name: 'none', v: null }];
  const arrow = stream({ id: vectorFromArray([1, null], new Int32()), name: ['a', 'b'] });
  assert.equal((await send(service, arrow, '&key_required')).status, 400);
  const refused = await send(service, arrow, '&key_required=true');
  assert.equal(refused.status, 400);
  assert.match(JSON.stringify(refused.body), /row 2, column id holds a NULL, and key_required/);
  assert.deepEqual(await ids(service), []);
  const answer = await merge(service, JSON.stringify(sent), `${report}&key_required=true`, json);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows], [4, 2]);
  matchAll(reported(answer), [...reasonsOfMixed, /^6: row 6, column id holds a NULL/]);
  assert.equal((await merge(service, arrow, report)).num_invalid_rows, 0);
});

test('more invalid rows than may be refuse all, with the counts', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const body = JSON.stringify(mixed);
  for (const most of ['0', '2', '0.5', '.59']) {
    const refused = await send(service, body, `${report}&max_invalid=${most}`, json);
    assert.equal(refused.status, 400, most);
    assert.match(JSON.stringify(refused.body), /3 of 5 rows are invalid/);
  }
  assert.deepEqual(await ids(service), []);
  for (const most of ['3', '0.6', '1.0', ''])
    assert.equal((await merge(service, body, `${report}&max_invalid=${most}`, json)).num_invalid_rows, 3, most);
});

test('invalid rows go first: they are no duplicates, and none of them is the newest', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const twice = [
    { id: 1, name: 'first' },
    { id: 1, name: 'last' },
    { id: 1, name: null },
  ];
  const answer = await merge(service, JSON.stringify(twice), `${report}&on_duplicate=last`, json);
  assert.deepEqual([answer.num_invalid_rows, answer.num_duplicate_rows, answer.num_rows], [1, 1, 1]);
  assert.deepEqual(
    (await storedRows(service, 't')).map(({ name }) => name),
    ['last'],
  );
  const late = [
    { id: 1, name: 'a' },
    { id: 1, name: 7 },
    { id: 2, name: 'b' },
  ];
  const newest = await merge(service, JSON.stringify(late), `${report}&version_column=name`, json);
  assert.deepEqual([newest.num_invalid_rows, newest.num_stale_rows, newest.num_inserted_rows], [1, 1, 1]);
});

test('the rules come as headers and as defaults of the table, and the answer names the defaults', async (t) => {
  const defaults = { 'lancegate.on_invalid': 'report', 'lancegate.max_invalid': '3' };
  const properties = encodeURIComponent(JSON.stringify(defaults));
  const service = await startWithPeople((clean) => t.after(clean), `?properties=${properties}`);
  const body = JSON.stringify(mixed);
  const answer = await merge(service, body, '', json);
  assert.deepEqual([answer.num_invalid_rows, answer.table_defaults], [3, { on_invalid: 'report', max_invalid: '3' }]);
  assert.equal((await send(service, body, '', { ...json, 'x-lancegate-max-invalid': '2' })).status, 400);
  assert.equal((await send(service, body, '&on_invalid=', json)).status, 400);
});

test('where the table reports invalid rows, one of several operations refuses them, and all others with it (P1)', async (t) => {
  const rules = { 'lancegate.on_invalid': 'report', 'lancegate.key_required': 'true' };
  const service = await startWithPeople(
    (clean) => t.after(clean),
    `?properties=${encodeURIComponent(JSON.stringify(rules))}`,
  );
  const rows = stream({ id: vectorFromArray([5, null], new Int32()), name: ['new', 'none'] });
  const upsert = part('up', { operation: 'merge_insert', on: 'id', source: 'rows' });
  const answer = await transact(service, 't', [upsert, part('rows', rows)]);
  assert.equal(answer.status, 400);
  assert.match(JSON.stringify(answer.body), /operation up: row 2, column id holds a NULL, and key_required/);
  assert.deepEqual(await ids(service), []);
  const valid = part('rows', stream({ id: [5], name: ['new'] }));
  const { status, body } = await transact(service, 't', [upsert, valid]);
  assert.deepEqual([status, JSON.stringify(body).includes('on_invalid')], [200, false]);
});

test('a retry gets the same report (P6)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const key = { ...json, 'idempotency-key': 'k' };
  const first = await merge(service, JSON.stringify(mixed), report, key);
  const { context: _, ...again } = await merge(service, JSON.stringify(mixed), report, key);
  const { columns: _columns, context: _context, ...told } = first;
  assert.deepEqual(again, told);
});

test('a first merge into a declared table reports what does not have the type of the first rows', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  assert.equal((await service.post('/v1/table/t/declare', {})).status, 200);
  const lines = '{"id":1}\nno json\n{"id":null}\n{"id":3}';
  const answer = await merge(service, lines, `${report}&key_required=true`, ndjson);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows], [2, 2]);
  matchAll(reported(answer), [/^2: line 2 is not JSON/, /^3: row 3, column id holds a NULL/]);
  assert.deepEqual(await ids(service), [1, 3]);
});

test('a first merge into a declared table reports rows where the metadata of its schema says so', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  assert.equal((await service.post('/v1/table/t/declare', {})).status, 200);
  const metadata = new Map([
    ['lancegate.on_invalid', 'report'],
    ['lancegate.key_required', 'true'],
  ]);
  const { schema, batches } = new Table({ id: vectorFromArray([1, null, 3], new Int32()) });
  const rows = new Table(new Schema(schema.fields, metadata), batches);
  const answer = await merge(service, Buffer.from(tableToIPC(rows, 'stream')), '');
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows], [1, 2]);
  matchAll(reported(answer), [/^2: row 2, column id holds a NULL/]);
  assert.deepEqual(answer.table_defaults, { on_invalid: 'report', key_required: 'true' });
});

test('of many invalid rows of a large text all are counted, and the first hundred listed (P10)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const rows = Array.from({ length: 20_000 }, (_, i) => {
    if (i % 4 === 3) return `{"id":null,"name":"none"}`;
    return i % 4 === 1 ? `{"id":"x","name":"wrong"}` : `{"id":${i},"name":"person ${i}"}`;
  });
  const answer = await merge(service, rows.join('\n'), `${report}&key_required=true`, ndjson);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows], [10_000, 10_000]);
  const listed = answer.invalid_rows as readonly { row: number; reason: string }[];
  assert.deepEqual(
    listed.map(({ row }) => row),
    Array.from({ length: 100 }, (_, i) => 2 * (i + 1)),
  );
});

test('merges that share commits each report their own rows (P4)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const bodies = Array.from({ length: 12 }, (_, i) => [
    ...Array.from({ length: i }, () => ({ id: 'x', name: 'wrong' })),
    { id: i, name: 'right' },
  ]);
  const answers = await Promise.all(bodies.map((rows) => merge(service, JSON.stringify(rows), report, json)));
  assert.deepEqual(
    answers.map(({ num_invalid_rows: invalid, num_inserted_rows: inserted }) => [invalid, inserted]),
    bodies.map((_, i) => [i, 1]),
  );
  assert.equal((await ids(service)).length, 12);
});

test('rules that cannot be are refused', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const wrong = {
    'on_invalid=drop': /refuse, report/,
    'on_invalid=report&when_not_matched_by_source_delete=true': /deletes by source/,
    'max_invalid=-1': /max_invalid/,
    ...Object.fromEntries(
      ['1.5', '1.', '0.', '.', '1e9', 'some'].map((most) => [`max_invalid=${most}`, /max_invalid/]),
    ),
    'key_required=maybe': /key_required/,
  };
  for (const [query, message] of Object.entries(wrong)) {
    const answer = await send(service, JSON.stringify(mixed), `&${query}`, json);
    assert.equal(answer.status, 400, query);
    assert.match(JSON.stringify(answer.body), message);
  }
});
