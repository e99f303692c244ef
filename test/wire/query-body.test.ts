import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFields } from '#src/wire/json-body.ts';
import { nameCheck } from '#src/wire/known-names.ts';
import { filterReader } from '#src/wire/merge-parameters.ts';
import { QueryBody, readQuery } from '#src/wire/query-body.ts';

const query = { path: '/v1/table/:id/query', isStrict: false, parameters: {}, fields: QueryBody.properties };
const check = nameCheck(query, [], () => {});
const read = (body: object) => readQuery(readFields(QueryBody, body, 'query'), filterReader([]), check);
const refuses = (body: object, message: RegExp): void =>
  assert.throws(() => read(body), { name: 'LancegateError', kind: 'InvalidInput', message });

test('a body without fields asks for every row, as the engine would', () => {
  assert.deepEqual(read({}), {
    columns: undefined,
    filter: undefined,
    limit: undefined,
    offset: 0,
    orderBy: [],
    withRowId: false,
    fastSearch: false,
    nearest: undefined,
    text: undefined,
  });
});

test('a search without a limit finds ten rows, and one of all rows has none', () => {
  assert.equal(read({ vector: [1] }).limit, 10);
  assert.equal(read({ full_text_query: { query: 'a' } }).limit, 10);
  assert.equal(read({ vector: [1], k: 2 ** 63 }).limit, undefined);
  assert.equal(read({ k: 2 ** 32 - 1 }).limit, 2 ** 32 - 1);
});

test('both shapes of vectors are read, and an empty one is none', () => {
  const vectors = (vector: unknown) => read({ vector }).nearest?.vectors;
  assert.deepEqual(vectors([1, 2]), [[1, 2]]);
  assert.deepEqual(vectors([[1], [2]]), [[1], [2]]);
  assert.deepEqual(vectors({ single_vector: [1, 2] }), [[1, 2]]);
  assert.deepEqual(vectors({ multi_vector: [[1], [2]], single_vector: [] }), [[1], [2]]);
  for (const none of [null, [], {}, { single_vector: null }, { multi_vector: [] }])
    assert.equal(vectors(none), undefined);
  refuses({ vector: { single_vector: [1], multi_vector: [[1]] } }, /exclude each other/);
  refuses({ vector: { single_vector: 'x' } }, /^vector must be an array/);
});

test('a vector holds finite 32-bit floats, and the error names the first that is none', () => {
  refuses({ vector: [1, '2'] }, /^vector: number 2 is not a number$/);
  refuses({ vector: [1, null] }, /^vector: number 2 is not a number$/);
  refuses({ vector: [1e39] }, /^vector: number 1 is beyond a 32-bit float$/);
  refuses({ vector: [[1], 2] }, /^vector: every vector must be an array of numbers$/);
  refuses({ vector: [1], lower_bound: 1e300 }, /^lower_bound is beyond a 32-bit float$/);
  assert.deepEqual(read({ vector: [-3.4e38] }).nearest?.vectors, [[-3.4e38]]);
});

test('columns may be pairs of a name and its SQL, as the LanceDB SDKs up to 0.29 send them', () => {
  const columns = read({
    columns: [
      ['double', 'id * 2'],
      ['text', 'text'],
    ],
  }).columns;
  assert.deepEqual(columns, read({ columns: { double: 'id * 2', text: 'text' } }).columns);
  assert.equal(read({ columns: [['a', 'id'], 'id'] }).columns?.length, 2);
  refuses({ columns: [['a', 'b', 'c']] }, /must be a name and the SQL/);
  refuses({ columns: [['a', 1]] }, /the value of a must be SQL/);
  refuses({ columns: [['a', '(SELECT 1)']] }, /columns.a/);
  refuses({ columns: { column_names: ['a'], column_aliases: { b: 'a' } } }, /exclude each other/);
  assert.equal(read({ columns: { column_names: [], column_aliases: { b: 'a' } } }).columns?.[0]?.name, 'b');
});

test('a zero is what clients send for a number that is not set', () => {
  const nearest = read({ vector: [1], nprobes: 0, ef: 0, refine_factor: 0 }).nearest!;
  const { minProbes, maxProbes, ef, refineFactor } = nearest;
  assert.deepEqual([minProbes, maxProbes, ef, refineFactor], [undefined, undefined, undefined, undefined]);
});

test('the newer names of probes win over the older one', () => {
  const probes = (body: object) => {
    const { minProbes, maxProbes } = read({ vector: [1], ...body }).nearest!;
    return [minProbes, maxProbes];
  };
  assert.deepEqual(probes({ nprobes: 7 }), [7, 7]);
  assert.deepEqual(probes({ nprobes: 7, minimum_nprobes: 3 }), [3, undefined]);
  assert.deepEqual(probes({ nprobes: 7, maximum_nprobes: 9 }), [undefined, 9]);
  assert.deepEqual(probes({ minimum_nprobes: 3, maximum_nprobes: 0 }), [3, undefined]);
});

test('columns come as paths, as aliases of paths, or as SQL under a name', () => {
  const columns = (value: unknown) =>
    read({ columns: value }).columns?.map(({ name, expression }) => [name, expression]);
  assert.deepEqual(columns(['a', 'b.c']), [
    ['a', '`a`'],
    ['b.c', '`b`.`c`'],
  ]);
  assert.deepEqual(columns({ column_names: ['a'] }), [['a', '`a`']]);
  assert.deepEqual(columns({ column_aliases: { x: 'a', y: 'b' } }), [
    ['x', '`a`'],
    ['y', '`b`'],
  ]);
  assert.deepEqual(columns({ x: 'a + 1' }), [['x', '(a + 1)']]);
  assert.deepEqual(columns([]), []);
});

test('what is no list of columns is refused', () => {
  refuses({ columns: 'a' }, /^columns must be an array or an object$/);
  refuses({ columns: [1] }, /^columns must hold names, as texts$/);
  refuses({ columns: { column_aliases: { x: 1 } } }, /^columns must hold names, as texts$/);
  refuses({ columns: { x: null } }, /^columns: the value of x must be SQL, as a text$/);
  refuses({ columns: Array.from({ length: 10_001 }, (_, i) => `c${i}`) }, /^columns: there are more than 10000$/);
});

test('a name that JavaScript would move to the front is refused beside others', () => {
  refuses({ columns: { b: 'x', 0: 'y' } }, /^columns: 0 cannot be the name of one of several columns/);
  refuses({ columns: { column_aliases: { b: 'x', 12: 'y' } } }, /^columns: 12 cannot be/);
  assert.deepEqual(
    ['01', '1.5', '-1'].map((name) => read({ columns: { b: 'x', [name]: 'y' } }).columns?.at(-1)?.name),
    ['01', '1.5', '-1'],
  );
  assert.equal(read({ columns: { 5: 'x' } }).columns?.[0]?.name, '5');
});

test('an order has a direction and a place for NULL, ascending and last by default', () => {
  assert.deepEqual(
    read({ order_by: [{ column_name: 'a' }, { column_name: 'b.c', ascending: false, nulls_first: true }] }).orderBy,
    [
      { column: 'a', ascending: true, nullsFirst: false },
      { column: 'b.c', ascending: false, nullsFirst: true },
    ],
  );
  refuses({ order_by: Array.from({ length: 101 }, () => ({ column_name: 'a' })) }, /^order_by/);
  refuses({ order_by: [{}] }, /column_name/);
});

test('a filter applies before the search unless the client says otherwise', () => {
  assert.equal(read({ vector: [1] }).nearest?.filtersAfter, false);
  assert.equal(read({ vector: [1], prefilter: false }).nearest?.filtersAfter, true);
});
