/** New values that do not fit their columns are refused, and the rows stay as they are. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import {
  type DataType,
  Field,
  FixedSizeList,
  Float16,
  Float32,
  Float64,
  Int8,
  Int64,
  List,
  Struct,
  Time,
  TimestampNanosecond,
  TimeUnit,
  Uint8,
  Uint64,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { part, transact } from './multipart-body.ts';
import { type Row, storedRows, stream } from './rows.ts';

const item = (type: DataType): Field => new Field('item', type, true);
const vectorOf = (type: DataType): DataType => new FixedSizeList(2, item(type));
const twice = (value: unknown, type: DataType) => vectorFromArray([value, value], type);
const struct = new Struct([new Field('a', new Uint8(), true), new Field('t', new Utf8(), true)]);

const columns = {
  id: [1, 2],
  tiny: twice(1, new Uint8()),
  half: twice(1, new Float16()),
  single: twice(1, new Float32()),
  double: twice(1e300, new Float64()),
  time: twice(1n, new Time(TimeUnit.MICROSECOND, 64)),
  vector: twice([1, 2], vectorOf(new Float32())),
  halves: twice([1, 2], vectorOf(new Float16())),
  bytes: twice([1, 2], vectorOf(new Uint8())),
  list: twice([1], new List(item(new Uint8()))),
  wide: twice([1n, 300n], vectorOf(new Int64())),
  pair: twice({ a: 1, t: 'x' }, struct),
  pairs: twice([{ a: 1, t: 'x' }], new List(item(struct))),
};

/** The column, and an expression that does not fit it. */
const unfitting: readonly (readonly [string, string])[] = [
  ['vector', '[1]'],
  ['vector', '((([1, 2, 3])))'],
  ['vector', '[]'],
  ['vector', "['a', '2']"],
  ['vector', '[1, 1e39]'],
  ['vector', 'make_array(double, 1)'],
  ['halves', '[1]'],
  ['halves', '[1, 70000]'],
  ['bytes', '[1, 300]'],
  ['bytes', '[-1, 2]'],
  ['bytes', "['1', 'x']"],
  ['bytes', 'wide'],
  ['list', '[1, 300]'],
  ['tiny', '300'],
  ['tiny', 'id - 2'],
  ['half', 'id + 70000'],
  ['single', '1e39'],
  ['single', "'1e39'"],
  ['single', 'double'],
  ['time', '-1'],
  ['time', "'-1'"],
  ['pair', "named_struct('t', 'y')"],
  ['pair', "named_struct('a', 1, 't', 'y', 'more', 2)"],
  ['pair', "named_struct('a', 300, 't', 'y')"],
  ['pairs', "make_array(named_struct('a', 1))"],
];

describe('a value that does not fit its column is refused, and never NULL in its place', () => {
  const later = afterSuite();
  let service: TestService;
  let rows: readonly Row[];
  before(async () => {
    service = await startCheckedService(later);
    succeeded(await service.post('/v1/table/t/create', stream(columns)));
    rows = await storedRows(service, 't');
  });

  test('in an update, which names the column and shows no value (P12)', async () => {
    for (const [column, value] of unfitting) {
      const answer = await service.post('/v1/table/t/update', { predicate: 'id = 1', updates: [[column, value]] });
      refused(answer, 400, 13, new RegExp(`^\\D*\\b${column}\\b\\D*$`));
    }
    assert.deepEqual(await storedRows(service, 't'), rows);
  });

  test('in an update that is a step of several, and in one of several columns', async () => {
    for (const [column, value] of unfitting.slice(0, 12)) {
      const update = { operation: 'update', updates: [[column, value]] };
      refused(
        await transact(service, 't', [part('first', { operation: 'delete', predicate: 'id = 2' }), part('u', update)]),
        400,
        13,
        /^operation u: /,
      );
    }
    const updates = [
      ['tiny', '2'],
      ['half', 'tiny + 70000'],
      ['vector', '[1, 2]'],
    ];
    refused(await service.post('/v1/table/t/update', { updates }), 400, 13, /half/);
    assert.deepEqual(await storedRows(service, 't'), rows);
  });

  test('where a column gets another type, also one inside a list', async () => {
    const alter = (path: string, type: object) =>
      service.post('/v1/table/t/alter_columns', { alterations: [{ path, data_type: type }] });
    const vectors = (type: string) => ({
      type: 'fixed_size_list',
      length: 2,
      fields: [{ name: 'item', type: { type } }],
    });
    for (const [path, type] of [
      ['double', { type: 'float' }],
      ['double', { type: 'halffloat' }],
      ['wide', vectors('uint8')],
    ] as const) {
      refused(await alter(path, type), 400, 13, new RegExp(`\\b${path}\\b`));
    }
    assert.deepEqual(await storedRows(service, 't'), rows);
  });

  test('a NULL that the expression means is stored', async () => {
    succeeded(await service.post('/v1/table/null/create', stream(columns)));
    const updates = [
      ['vector', 'NULL'],
      ['halves', '[NULL, 2.5]'],
      ['single', "nullif('1', '1')"],
      ['tiny', "try_cast('x' AS INT)"],
      ['half', "'inf'"],
      ['pair', "named_struct('t', 'y', 'a', NULL)"],
    ];
    succeeded(await service.post('/v1/table/null/update', { predicate: 'id = 1', updates }));
    const [row] = await storedRows(service, 'null');
    const { vector, halves, single, tiny, half, pair } = row!;
    assert.deepEqual(
      { vector, halves, single, tiny, pair },
      {
        vector: null,
        halves: [null, 2.5],
        single: null,
        tiny: null,
        pair: { a: null, t: 'y' },
      },
    );
    assert.equal(half, null, 'infinity has no JSON');
  });
});

test('a sum of integers beyond their type is refused, and does not begin again at its other end', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  const integers = {
    id: [1, 2],
    small: vectorFromArray([127, null], new Int8()),
    most: vectorFromArray([2n ** 63n - 1n, 5n], new Int64()),
    least: vectorFromArray([0n, 7n], new Uint64()),
    time: vectorFromArray([2n ** 62n, 1n], new Int64()),
    end: vectorFromArray([2n ** 62n, 1n], new Int64()),
    list: vectorFromArray([[2n ** 62n], [1n]], new List(item(new Int64()))),
    pair: vectorFromArray([{ a: 1n }, { a: null }], new Struct([new Field('a', new Int64(), true)])),
  };
  succeeded(await service.post('/v1/table/t/create', stream(integers)));
  const update = (column: string, expression: string, predicate = 'true') =>
    service.post('/v1/table/t/update', { predicate, updates: [[column, expression]] });
  const beyond = [
    ['small', 'small + 1'],
    ['small', '2 * small'],
    ['small', '-(small) - 2'],
    ['most', '1 + most'],
    ['most', '`most` * 2'],
    ['most', 'coalesce(most, 0) + 1'],
    ['most', 'CAST(most AS BIGINT) * 2'],
    ['most', 'most * most * most'],
    ['most', 'small * small + most'],
    ['most', 'small * small + id'],
    ['most', 'CAST(most AS BIGINT) + CAST(most AS BIGINT)'],
    ['most', 'coalesce(CASE WHEN most > 5 THEN most + 1 ELSE most END)'],
    ['most', '1 + small'],
    ['time', 'time * 1000'],
    ['most', '2 * end'],
    ['most', 'coalesce(CASE WHEN id = 1 THEN time ELSE end END) * 2'],
    ['least', 'least - 1'],
    ['most', '(most + 1) / 2'],
    ['most', '(most + 1) % 7'],
    ['most', 'greatest(most + 1, 2)'],
    ['most', 'most / 5 * 6'],
    ['most', "length('ab') * most"],
    ['most', 'list[1] * 2'],
    ['most', 'pair.a + 9223372036854775807'],
    ['most', 'coalesce(CASE WHEN most + 1 > 5 THEN 1 ELSE 2 END)'],
    ['most', 'coalesce(gcd(most, 5) * most * 3, 1)'],
  ] as const;
  const before = await storedRows(service, 't');
  for (const [column, expression] of beyond) {
    refused(await update(column, expression), 400, 13, new RegExp(`column ${column}: a number is out of the range`));
  }
  assert.deepEqual(await storedRows(service, 't'), before);
  for (const [column, expression] of beyond) succeeded(await update(column, expression, 'id = 2'));
  succeeded(await update('small', '(small + 1) - 1', 'id = 1'));
  succeeded(await update('most', 'small - 100', 'id = 1'));
  const [first, second] = await storedRows(service, 't');
  assert.deepEqual([first?.small, first?.most], [127, 27]);
  assert.deepEqual([second?.small, second?.least], [null, 6]);
});

test('a sum beyond its type is found wherever it stands, and only where a row comes to it', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  const numbers = { id: [1, 2], most: vectorFromArray([2n ** 63n - 1n, 5n], new Int64()) };
  succeeded(await service.post('/v1/table/t/create', stream(numbers)));
  const add = (expression: string, name: string) =>
    service.post('/v1/table/t/add_columns', { new_columns: [{ name, expression }] });
  for (const expression of [
    'make_array(most + 1)',
    "named_struct('a', most + 1)",
    "concat('a', most + 1)",
    'power(most * 2, 2)',
    'to_timestamp_millis(most * 1000)',
    'most * 2 + 0.5',
    'most + 1 > 5',
    `abs(${'abs('.repeat(6)}most - 2${') / 2 + 1'.repeat(6)}) * 400`,
  ]) {
    refused(await add(expression, 'added'), 400, 13, /column added: a number is out of the range/);
  }
  const branch = 'CASE WHEN id = 2 THEN most + 1 ELSE most END';
  const kept = [`coalesce(${branch})`, `make_array(${branch})`, 'most / 3 * 2', 'abs(most - 1) % 4 + 1', '-most'];
  for (const [i, expression] of kept.entries()) succeeded(await add(expression, `kept${i}`));
});

test('a float that becomes infinite is refused, except where its definition says so', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  const numbers = {
    id: [1, 2],
    half: vectorFromArray([60_000, 1], new Float16()),
    single: vectorFromArray([3e38, Number.POSITIVE_INFINITY], new Float32()),
    double: vectorFromArray([1.7e308, null], new Float64()),
    time: twice(1n, new Time(TimeUnit.MICROSECOND, 64)),
    at: vectorFromArray([0, 0], new TimestampNanosecond()),
  };
  succeeded(await service.post('/v1/table/t/create', stream(numbers)));
  const set = (column: string, expression: string) =>
    service.post('/v1/table/t/update', { predicate: 'true', updates: [[column, expression]] });
  for (const [column, expression] of [
    ['half', 'half * half'],
    ['single', 'single * 10'],
    ['single', 'coalesce(single * 10 / 2, 1)'],
    ['double', 'double * 10'],
    ['double', 'exp(double)'],
    ['double', 'power(double, 2)'],
    ['double', 'round(double, 2)'],
    ['at', 'to_timestamp(double)'],
  ] as const) {
    refused(await set(column, expression), 400, 13, new RegExp(`column ${column}: a number is out of the range`));
  }
  for (const expression of ['double / 0', 'ln(0 * double)', 'coalesce(single, 1) * 0', "coalesce(double, 'inf')"]) {
    succeeded(await set('double', expression));
  }
  const added = { new_columns: [{ name: 'late', expression: "arrow_cast(id * 86400000000, 'Time64(Microsecond)')" }] };
  refused(await service.post('/v1/table/t/add_columns', added), 400, 13, /column late: a number is out of the range/);
});

test('a float that becomes infinite inside of a list or struct, or that a text is too large for, is refused', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  const floats = new List(item(new Float64()));
  const rows = {
    id: [1, 2],
    big: vectorFromArray([1e300, null], new Float64()),
    single: vectorFromArray([3e38, null], new Float32()),
    text: twice('1e400', new Utf8()),
    list: vectorFromArray([[1], [Number.POSITIVE_INFINITY]], floats),
    vector: twice([1, 2], vectorOf(new Float32())),
    halves: twice([1, 2], vectorOf(new Float16())),
    pair: twice({ x: 1 }, new Struct([new Field('x', new Float64(), true)])),
    moment: twice({ at: 0 }, new Struct([new Field('at', new TimestampNanosecond(), true)])),
  };
  succeeded(await service.post('/v1/table/t/create', stream(rows)));
  const set = (column: string, expression: string, predicate = 'id = 1') =>
    service.post('/v1/table/t/update', { predicate, updates: [[column, expression]] });
  const beyond = [
    ['list', 'make_array(big * big)'],
    ['list', 'array_append(list, big * 1e300)'],
    ['list', "['1', '1e400']"],
    ['vector', 'make_array(single * 10, 1)'],
    ['halves', 'make_array(single * single, 1)'],
    ['pair', "named_struct('x', big * 1e300)"],
    ['pair', "named_struct('x', text)"],
    ['moment', "named_struct('at', to_timestamp(big))"],
    ['big', "'-1e400'"],
    ['big', 'text'],
  ] as const;
  for (const [column, expression] of beyond) {
    refused(await set(column, expression), 400, 13, new RegExp(`column ${column}: a number is out of the range`));
  }
  const add = (expression: string) =>
    service.post('/v1/table/t/add_columns', { new_columns: [{ name: 'late', expression }] });
  for (const expression of ['make_array(single * single)', "named_struct('s', named_struct('x', big * big))"]) {
    refused(await add(expression), 400, 13, /column late: a number is out of the range/);
  }
  succeeded(await set('list', 'array_append(list, 2.5 * 2)', 'true'));
  for (const expression of ['make_array(big / 0)', "['inf']"]) succeeded(await set('list', expression));
  succeeded(await set('big', "'1.7e308'"));
  succeeded(await set('pair', "named_struct('x', big - 1.0)"));
});

test('a number of which a decimal would not get all digits is refused, unless it is a text', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  succeeded(
    await service.post('/v1/table/t/create', stream({ id: [1], double: vectorFromArray([1.5], new Float64()) })),
  );
  const add = (name: string, expression: string) =>
    service.post('/v1/table/t/add_columns', { new_columns: [{ name, expression }] });
  succeeded(await add('d', "arrow_cast('0', 'Decimal128(38, 5)')"));
  const set = (value: string, column = 'd') => service.post('/v1/table/t/update', { updates: [[column, value]] });
  const digits = '12345678901234567890123';
  for (const value of [digits, `-${digits}`, '99999999999.99999', '1234567890123456e7']) {
    refused(await set(value), 400, 13, /^column d: a number of more than 15 digits/);
  }
  refused(await add('e', `CAST(${digits} AS DECIMAL(38, 0))`), 400, 13, /^column e: .* 15 digits/);
  for (const [value, stored] of [
    [`'${digits}.5'`, `${digits}.50000`],
    ['18446744073709551615', '18446744073709551615.00000'],
    ['0.100000000000000000', '0.10000'],
    ['-1234567890.12345', '-1234567890.12345'],
  ] as const) {
    succeeded(await set(value));
    const { body } = await service.post<number>('/v1/table/t/count_rows', {
      predicate: `CAST(d AS STRING) = '${stored}'`,
    });
    assert.equal(body, 1, value);
  }
  succeeded(await set(digits, 'double'));
});

test('decimals with more digits than their type are refused', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  succeeded(await service.post('/v1/table/t/create', stream({ id: [6, 1] })));
  const add = (expression: string) =>
    service.post('/v1/table/t/add_columns', { new_columns: [{ name: 'd', expression }] });
  const tens = `arrow_cast('1${'0'.repeat(37)}', 'Decimal128(38, 0)')`;
  succeeded(await add(`${tens} * arrow_cast(id, 'Decimal128(1, 0)')`));
  const sum = (value: string) => service.post('/v1/table/t/update', { updates: [['d', value]] });
  refused(await sum('d + d'), 400, 13, /column d: a number is out of the range/);
  succeeded(await sum('d - d'));
});

test('a date that cannot be rounded is a mistake of the request', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  succeeded(await service.post('/v1/table/t/create', stream({ n: vectorFromArray([-(2n ** 63n)], new Int64()) })));
  const query = {
    k: 1,
    vector: [],
    filter: "date_trunc('year', arrow_cast(n, 'Timestamp(Nanosecond, None)')) IS NULL",
  };
  refused(await service.post('/v1/table/t/query', query), 400, 13, /a date, or a part of one, is not valid/);
});

test('a column is not added with numbers that a sum or a cast made others', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean));
  const numbers = {
    id: [1, 2],
    most: vectorFromArray([2n ** 63n - 1n, null], new Int64()),
    huge: vectorFromArray([1e300, Number.POSITIVE_INFINITY], new Float64()),
  };
  succeeded(await service.post('/v1/table/t/create', stream(numbers)));
  const add = (expression: string, name = 'added') =>
    service.post('/v1/table/t/add_columns', { new_columns: [{ name, expression }] });
  for (const expression of ['most + 1', 'CAST(huge AS FLOAT)', 'huge::float', "arrow_cast(huge, 'Float16')"]) {
    refused(await add(expression), 400, 13, /column added: a number is out of the range/);
  }
  succeeded(await add('most - 1'));
  succeeded(await add('coalesce(CASE WHEN id = 1 THEN 1.5 ELSE huge END)::float', 'kept'));
  const [first, second] = await storedRows(service, 't');
  assert.deepEqual([first?.kept, second?.kept, second?.added], [1.5, null, null], 'infinity has no JSON');
});
