/** Rows that break a rule, of inserts and creates: the rules are those of merges (`invalid-rows.test.ts`). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Field, FixedSizeList, Float32, Int32, Schema, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { type Row, storedRows, stream } from './rows.ts';

const ndjson = { 'content-type': 'application/x-ndjson' };
const csv = { 'content-type': 'text/csv' };
const json = { 'content-type': 'application/json' };

/** A table with a column without NULL and a vector. */
async function startWithPeople(
  clean: (end: () => void | Promise<void>) => void,
  { create = '', metadata = new Map<string, string>() } = {},
): Promise<TestService> {
  const service = await startTestService(clean);
  const schema = new Schema(
    [
      new Field('id', new Int32(), true),
      new Field('name', new Utf8(), false),
      new Field('v', new FixedSizeList(2, new Field('item', new Float32(), true)), true),
    ],
    metadata,
  );
  const made = await service.post(`/v1/table/t/create${create}`, Buffer.from(tableToIPC(new Table(schema), 'stream')));
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return service;
}

const send = (service: TestService, path: string, body: Buffer | string, headers = {}) =>
  service.post(`/v1/table/${path}`, Buffer.from(body), headers);

async function sent(service: TestService, path: string, body: Buffer | string, headers = {}): Promise<Row> {
  const answer = await send(service, path, body, headers);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}

const reported = (answer: Row) =>
  (answer.invalid_rows as readonly { row: number; reason: string }[]).map(({ row, reason }) => `${row}: ${reason}`);

function matchAll(texts: readonly string[], patterns: readonly RegExp[]): void {
  assert.equal(texts.length, patterns.length, texts.join('\n'));
  for (const [i, pattern] of patterns.entries()) assert.match(texts[i] ?? '', pattern);
}

const ids = async (service: TestService) => (await storedRows(service, 't')).map(({ id }) => id);
const lines = (rows: readonly unknown[]): string => rows.map((row) => JSON.stringify(row)).join('\n');

const mixed = [
  { id: 1, name: 'a', v: [1, 2] },
  { id: 'two', name: 'b', v: [1, 2] },
  { id: 3, name: null, v: [1, 2] },
  { id: 4, name: 'd', v: [1, 2, 3] },
  { id: 5, name: 'e', v: null },
];
const reasonsOfMixed = [/^2: .*column id: this text is no int32/, /^3: .*column name/, /^4: .*column v: has 3 values/];

test('an insert reports rows that break a rule, and commits the others (P1, P2)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const answer = await sent(service, 't/insert?on_invalid=report', JSON.stringify(mixed), json);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows, answer.version], [3, 2, 2]);
  matchAll(reported(answer), reasonsOfMixed);
  const header = { 'x-lancegate-on-invalid': 'report' };
  const ofHeader = await sent(service, 't/insert', 'id,name\nx,y\n7,b\n', { ...csv, ...header });
  assert.deepEqual([ofHeader.num_invalid_rows, ofHeader.num_inserted_rows], [1, 1]);
  assert.deepEqual(await ids(service), [1, 5, 7]);
});

test('without the rule an insert or a create with such a row is refused, and no answer speaks of them', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  for (const query of ['', '?on_invalid=refuse', '?on_invalid='])
    assert.equal((await send(service, `t/insert${query}`, lines(mixed), ndjson)).status, 400);
  assert.equal((await send(service, 'u/create', '{"id":1}\nno json', ndjson)).status, 400);
  const answer = await sent(service, 't/insert', lines(mixed.slice(0, 1)), ndjson);
  assert.ok(!('num_invalid_rows' in answer) && !('invalid_rows' in answer) && !('table_defaults' in answer));
  assert.deepEqual(await ids(service), [1]);
});

test('an insert of which no row is left makes no version, and its retry has the same report (P6)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const keyed = { ...ndjson, 'idempotency-key': 'only-invalid' };
  const send = () => sent(service, 't/insert?on_invalid=report', lines(mixed.slice(1, 4)), keyed);
  const first = await send();
  assert.deepEqual([first.num_invalid_rows, first.num_inserted_rows, first.version], [3, 0, 1]);
  const { context: _, columns: __, ...again } = await send();
  const { context: ___, columns: ____, ...once } = first;
  assert.deepEqual(again, once);
});

test('a table says the rule for inserts by its properties or its metadata, and the answer says so', async (t) => {
  const properties = encodeURIComponent(JSON.stringify({ 'lancegate.max_invalid': '3' }));
  const service = await startWithPeople((clean) => t.after(clean), {
    create: `?properties=${properties}`,
    metadata: new Map([['lancegate.on_invalid', 'report']]),
  });
  const answer = await sent(service, 't/insert', lines(mixed), ndjson);
  assert.deepEqual(answer.table_defaults, { on_invalid: 'report', max_invalid: '3' });
  assert.equal(answer.num_invalid_rows, 3);
  assert.equal((await send(service, 't/insert?on_invalid=', lines(mixed), ndjson)).status, 400);
  const tooMany = await send(service, 't/insert', lines([...mixed, { id: 'x' }]), ndjson);
  assert.match(String(tooMany.body.error), /max_invalid: 4 of 6 rows are invalid/);
  const replaced = await sent(service, 't/insert?mode=overwrite', `${lines(mixed.slice(0, 1))}\nno json`, ndjson);
  assert.deepEqual([replaced.num_invalid_rows, replaced.num_inserted_rows], [1, 1]);
});

test('rows of Arrow with NULL where the table allows none are left out of an insert, in whatever chunk (P7)', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const rows = 400_000;
  const isBad = (i: number) => i % 9_973 === 5;
  const names = Array.from({ length: rows }, (_, i) => (isBad(i) ? null : `name ${i} ${'x'.repeat(60)}`));
  const all = new Table({
    id: vectorFromArray(
      Array.from({ length: rows }, (_, i) => i),
      new Int32(),
    ),
    name: vectorFromArray(names, new Utf8()),
    v: vectorFromArray(
      Array.from({ length: rows }, () => [1, 2]),
      new FixedSizeList(2, new Field('item', new Float32(), true)),
    ),
  });
  const slices = Array.from({ length: 40 }, (_, i) => all.slice((i * rows) / 40, ((i + 1) * rows) / 40));
  const source = Buffer.from(tableToIPC(new Table(slices.flatMap(({ batches }) => batches)), 'stream'));
  assert.ok(source.length > 32 << 20);
  const bad = Array.from({ length: rows }, (_, i) => i).filter(isBad);
  const answer = await sent(service, 't/insert?on_invalid=report', source);
  assert.deepEqual([answer.num_invalid_rows, answer.num_inserted_rows], [bad.length, rows - bad.length]);
  matchAll(
    reported(answer),
    bad.slice(0, 100).map((i) => new RegExp(`^${i + 1}: row ${i + 1}, column name`)),
  );
  assert.equal((await sent(service, 't/count_rows', '{}', json)) as unknown, rows - bad.length);
  const tooMany = await send(service, `t/insert?on_invalid=report&max_invalid=${bad.length - 1}`, source);
  assert.deepEqual([tooMany.status, tooMany.body.code], [400, 13]);
  assert.equal((await sent(service, 't/count_rows', '{}', json)) as unknown, rows - bad.length);
});

test('a create leaves out rows that its types have no room for, or that cannot be read, in all modes (P1)', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const many = Array.from({ length: 20_000 }, (_, id) => ({ id: id === 15_000 ? 'x' : id }));
  const created = await sent(service, 'u/create?on_invalid=report', `${lines(many)}\nno json`, ndjson);
  assert.equal(created.num_invalid_rows, 2);
  matchAll(reported(created), [/^15001: line 15001, column id/, /^20001: line 20001 is not JSON/]);
  assert.equal((await sent(service, 'u/count_rows', '{}', json)) as unknown, 19_999);
  const over = await sent(service, 'u/create?mode=overwrite&on_invalid=report', 'id,n\n1,2\n3\n', csv);
  matchAll(reported(over), [/^2: line 3: it has 1 cell/]);
  const kept = await sent(service, 'u/create?mode=exist_ok&on_invalid=report', 'id,n\n1,2\n3\n', csv);
  assert.ok(!('num_invalid_rows' in kept));
  assert.equal((await sent(service, 'u/count_rows', '{}', json)) as unknown, 1);
  const properties = encodeURIComponent(
    JSON.stringify({ 'lancegate.on_invalid': 'report', 'lancegate.max_invalid': '0.5' }),
  );
  const refused = await send(service, `w/create?properties=${properties}`, 'id,n\n1\n3\n5,6\n', csv);
  assert.match(String(refused.body.error), /2 of 3 rows are invalid/);
  assert.equal((await send(service, 'w/describe', '{}', json)).status, 404);
  const ofArrow = await sent(service, 'w/create?on_invalid=report', stream({ id: [1, 2] }));
  assert.deepEqual([ofArrow.num_invalid_rows, ofArrow.invalid_rows], [0, []]);
});

test('the first insert into a declared table leaves rows out by its properties, and a retried create has its report again (P6)', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const properties = { 'lancegate.on_invalid': 'report' };
  await sent(service, 'd/declare', JSON.stringify({ properties }), json);
  const first = await sent(service, 'd/insert', 'id,n\n1,2\n3\n', csv);
  assert.deepEqual([first.num_invalid_rows, first.num_inserted_rows], [1, 1]);
  assert.deepEqual(first.table_defaults, { on_invalid: 'report' });
  const create = () =>
    sent(service, 'e/create?on_invalid=report', 'id,n\n1,2\n3\n', { ...csv, 'idempotency-key': 'e' });
  const [once, again] = [await create(), await create()];
  assert.deepEqual([again.num_invalid_rows, again.invalid_rows], [1, once.invalid_rows]);
});

test('a header that is no rule is refused, and those of merges are passed over by inserts and creates', async (t) => {
  const service = await startWithPeople((clean) => t.after(clean));
  const merges = { 'x-lancegate-version-column': 'none', 'x-lancegate-key-required': 'true' };
  await sent(service, 't/insert', lines(mixed.slice(0, 1)), { ...ndjson, ...merges });
  for (const path of ['t/insert', 'n/create']) {
    const slip = await send(service, path, lines(mixed), { ...ndjson, 'x-lancegate-on-invald': 'report' });
    assert.match(String(slip.body.error), /x-lancegate-on-invald: no such header is known.*x-lancegate-on-invalid/);
    const wrong = await send(service, `${path}?on_invalid=drop`, lines(mixed), ndjson);
    assert.match(String(wrong.body.error), /on_invalid: expected one of refuse, report/);
  }
});
