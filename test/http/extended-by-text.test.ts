import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Float32 } from 'apache-arrow';
import { startWith, typed, written } from './extending.ts';
import { type Row, storedRows, stream } from './rows.ts';

test('columns come with rows of JSON and CSV, by the types of their values; so does room for a fraction', async (t) => {
  const service = await startWith(
    (clean) => t.after(clean),
    stream({ id: [1], a: [1], f: typed(new Float32(), [0.5]), i: [1] }),
  );
  const json = [
    { id: 1, b: 'x', tags: ['p', 'q'], none: null, f: 1.25, mixed: 1 },
    { id: 2, a: 3.5, at: '2026-03-01', mixed: { k: 'v' } },
  ];
  const answer = await written(service, 'merge_insert?on=id&schema=extend', Buffer.from(JSON.stringify(json)), {
    'content-type': 'application/json',
  });
  assert.deepEqual(answer.added_columns, [
    { name: 'b', type: 'utf8' },
    { name: 'tags', type: 'list<utf8>' },
    { name: 'mixed', type: 'utf8' },
    { name: 'at', type: 'date32' },
  ]);
  assert.deepEqual(answer.widened_columns, [{ name: 'a', type: 'float64', was: 'int32' }]);
  const csv = Buffer.from('id,a,i,new\n3,1,5000000000,true\n4,,,\n');
  const ofCsv = await written(service, 'insert?schema=extend', csv, { 'content-type': 'text/csv' });
  assert.deepEqual(
    [ofCsv.added_columns, ofCsv.widened_columns],
    [[{ name: 'new', type: 'bool' }], [{ name: 'i', type: 'int64', was: 'int32' }]],
  );
  const rows = (await storedRows(service, 't')).map(({ id, a, f, i, mixed, new: fresh }) => [
    id,
    a,
    f,
    i,
    mixed,
    fresh,
  ]);
  assert.deepEqual(rows, [
    [1, null, 1.25, 1, '1', null],
    [2, 3.5, null, null, '{"k":"v"}', null],
    [3, 1, null, 5000000000, null, true],
    [4, null, null, null, null, null],
  ]);
  const text = Buffer.from(JSON.stringify([{ id: 1, i: 'cheap' }]));
  const wrong = await service.post('/v1/table/t/merge_insert?on=id&schema=extend', text, {
    'content-type': 'application/json',
  });
  assert.equal(wrong.status, 400);
});

test('rows that break a rule are left out, and the others bring their columns', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1], i: [1] }));
  const json = Buffer.from(
    JSON.stringify([
      { id: 1, i: 'cheap', b: 1 },
      { id: 2, i: 7, b: 2 },
      { id: null, b: 3 },
    ]),
  );
  const answer = await written(service, 'merge_insert?on=id&schema=extend&on_invalid=report&key_required=true', json, {
    'content-type': 'application/json',
  });
  assert.deepEqual(
    [answer.num_invalid_rows, answer.num_inserted_rows, answer.added_columns],
    [2, 1, [{ name: 'b', type: 'int64' }]],
  );
  assert.deepEqual(
    (answer.invalid_rows as Row[]).map(({ row }) => row),
    [1, 3],
  );
  assert.deepEqual(await storedRows(service, 't'), [
    { id: 1, i: 1, b: null },
    { id: 2, i: 7, b: 2 },
  ]);
});
