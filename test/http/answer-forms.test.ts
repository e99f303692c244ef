/** Rows as people and programs without Arrow read them. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { DataType, Field } from '#src/arrow/schema/schema.ts';
import { ndjsonTypes } from '#src/rows/answer-form.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { encodeStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { numbersFrom, wideRows, wideStream } from './wide-table.ts';

const utf8: DataType = { kind: 'utf8' };
const int = (bitWidth: 8 | 32 | 64, signed = true): DataType => ({ kind: 'int', bitWidth, signed });
const float = (bitWidth: 16 | 32 | 64): DataType => ({ kind: 'float', bitWidth });

/** Columns with their values, and what JSON has of them. */
const cases: readonly (readonly [Field, readonly unknown[], readonly unknown[]])[] = [
  [field('id', int(32)), [1, 2, 3], [1, 2, 3]],
  [field('long', int(64)), [2n ** 53n - 1n, -(2n ** 63n), null], [9007199254740991, '-9223372036854775808', null]],
  [field('ulong', int(64, false)), [2n ** 64n - 1n, 0n, null], ['18446744073709551615', 0, null]],
  [field('single', float(32)), [Math.fround(0.1), Number.NaN, null], [0.1, 'NaN', null]],
  [field('double', float(64)), [0.1 + 0.2, Number.NEGATIVE_INFINITY, -0], [0.30000000000000004, '-Infinity', -0]],
  [field('flag', { kind: 'bool' }), [true, false, null], [true, false, null]],
  [field('text', utf8), ['say "hi",\n', '', 'naïve 🙂'], ['say "hi",\n', '', 'naïve 🙂']],
  [field('plain', utf8), ['a', null, 'a,b'], ['a', null, 'a,b']],
  [field('bytes', { kind: 'binary' }), [Buffer.from([0, 255]), Buffer.alloc(0), null], ['AP8=', '', null]],
  [
    field('price', { kind: 'decimal', bitWidth: 128, precision: 20, scale: 2 }),
    [-5n, 123456n, null],
    ['-0.05', '1234.56', null],
  ],
  [field('day', { kind: 'date', unit: 'day' }), [0, -1, null], ['1970-01-01', '1969-12-31', null]],
  [
    field('at', { kind: 'timestamp', unit: 'us', timezone: 'UTC' }),
    [1_500_000n, -1n, null],
    ['1970-01-01T00:00:01.500000Z', '1969-12-31T23:59:59.999999Z', null],
  ],
  [
    field('berlin', { kind: 'timestamp', unit: 'ms', timezone: 'Europe/Berlin' }),
    [1_753_000_000_000n, 1_737_000_000_000n, null],
    ['2025-07-20T10:26:40+02:00', '2025-01-16T05:00:00+01:00', null],
  ],
  [
    field('local', { kind: 'timestamp', unit: 'ns', timezone: undefined }),
    [1n, 2n ** 62n, null],
    ['1970-01-01T00:00:00.000000001', '2116-02-20T23:53:38.427387904', null],
  ],
  [field('clock', { kind: 'time', unit: 'us' }), [0n, 86_399_000_001n, null], ['00:00:00', '23:59:59.000001', null]],
  [field('took', { kind: 'duration', unit: 'ms' }), [1_500n, -61_000n, null], ['PT1.500S', '-PT61S', null]],
  [
    field('tags', { kind: 'list' }, { children: [field('item', utf8)] }),
    [['a', null], [], null],
    [['a', null], [], null],
  ],
  [
    field('who', { kind: 'struct' }, { children: [field('name', utf8), field('age', int(8))] }),
    [{ name: 'ann', age: 3 }, { name: null, age: null }, null],
    [{ name: 'ann', age: 3 }, { name: null, age: null }, null],
  ],
  [
    field('kind', utf8, { dictionary: { id: 0n, index: { bitWidth: 8, signed: true }, ordered: false } }),
    ['x', 'y', null],
    ['x', 'y', null],
  ],
  [
    field('vector', { kind: 'fixed_size_list', listSize: 5 }, { children: [field('item', float(32))] }),
    [[1, 2, 3, 4, 5], [0.5, 0, 0, 0, 0], null],
    [[1, 2, 3, 4, 5], [0.5, 0, 0, 0, 0], null],
  ],
];

describe('rows without Arrow', () => {
  const later = afterSuite();
  let service: TestService;
  let token: string;
  before(async () => {
    service = await startCheckedService(later);
    token = await service.mint('lancegate:admin');
    const rows: Rows = Object.fromEntries(cases.map(([{ name }, values]) => [name, values]));
    succeeded(await service.post('/v1/table/all/create', encodeStream(schemaOf(cases.map(([of]) => of)), [rows])));
    succeeded(await service.post('/v1/table/wide/create', wideStream([wideRows(numbersFrom(0, 60))], 'none')));
  });

  const ask = (table: string, headers: Record<string, string>, query = '', body: object = { k: 100 }) =>
    fetch(`${service.url}/v1/table/${table}/query${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const text = async (accept: string, query = '', table = 'all', body?: object): Promise<string> => {
    const answer = await ask(table, { accept }, query, body);
    const said = await answer.text();
    assert.equal(answer.status, 200, said);
    return said;
  };
  const expected = [0, 1, 2].map((row) => Object.fromEntries(cases.map(([{ name }, , json]) => [name, json[row]])));

  test('JSON has the columns with their types, and then the rows', async () => {
    const { columns, rows } = JSON.parse(await text('application/json')) as Record<string, { name: string }[]>;
    assert.deepEqual(rows, expected);
    assert.deepEqual(
      columns?.map(({ name }) => name),
      cases.map(([{ name }]) => name),
    );
    assert.deepEqual(columns?.[1], { name: 'long', type: 'int64' });
  });

  test('NDJSON has a row in each line', async () => {
    const lines = (await text('application/x-ndjson')).split('\n');
    assert.equal(lines.pop(), '');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line) as unknown),
      expected,
    );
  });

  test('CSV quotes what would be read otherwise, and tells NULL from an empty text', async () => {
    const columns = ['id', 'text', 'plain', 'tags', 'double', 'long'];
    const body = { k: 100, columns: { column_names: columns } };
    assert.equal(
      await text('text/csv', '', 'all', body),
      [
        'id,text,plain,tags,double,long',
        '1,"say ""hi"",\n",a,"[""a"",null]",0.30000000000000004,9007199254740991',
        '2,"",,[],-Infinity,-9223372036854775808',
        '3,naïve 🙂,"a,b",,-0.0,',
        '',
      ].join('\r\n'),
    );
  });

  test('vectors are left out, or shown by their first values, where that is asked for', async () => {
    const rowsOf = async (query: string) =>
      (JSON.parse(await text('application/json', query)) as { rows: Record<string, unknown>[] }).rows;
    assert.deepEqual((await rowsOf('?vectors=preview'))[0]?.vector, [1, 2, 3, '… 2 more']);
    assert.ok(!('vector' in (await rowsOf('?vectors=omit'))[0]!));
    assert.equal((await ask('all', { accept: 'application/json' }, '?vectors=none')).status, 400);
  });

  test('an Arrow stream has what the file has', async () => {
    for (const table of ['all', 'wide']) {
      const file = await ask(table, {});
      const stream = await ask(table, { accept: 'application/vnd.apache.arrow.stream' });
      const taken = await wholeOf(Buffer.from(await stream.arrayBuffer()));
      assert.deepEqual(decodeFile(taken.file), decodeFile(Buffer.from(await file.arrayBuffer()) as IpcFile));
    }
  });

  test('every type has a text in each form', async () => {
    const { rows } = JSON.parse(await text('application/json', '', 'wide')) as { rows: unknown[] };
    assert.equal(rows.length, 60);
    const lines = (await text('application/x-ndjson', '', 'wide')).trimEnd().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line) as unknown),
      rows,
    );
    assert.ok((await text('text/csv', '', 'wide')).length > 0);
  });

  test('no rows are an empty list, and a head alone', async () => {
    const body = { k: 10, filter: 'id > 99', columns: { column_names: ['id'] } };
    const none = '{"columns":[{"name":"id","type":"int32"}],"rows":[]}\n';
    assert.equal(await text('application/json', '', 'all', body), none);
    assert.equal(await text('application/x-ndjson', '', 'all', body), '');
    assert.equal(await text('text/csv', '', 'all', body), 'id\r\n');
    assert.equal(await text('text/csv; header=absent', '', 'all', body), '');
  });

  test('the type is the one that the client likes best, and an Arrow file where it takes any', async () => {
    const typeFor = async (headers: Record<string, string>) => {
      const answer = await ask('all', headers);
      await answer.body?.cancel();
      return `${answer.status} ${answer.headers.get('content-type')}`;
    };
    const file = '200 application/vnd.apache.arrow.file';
    assert.equal(await typeFor({ accept: '*/*' }), file);
    assert.equal(await typeFor({ accept: 'application/vnd.apache.arrow.file, application/json' }), file);
    assert.equal(await typeFor({ accept: 'text/csv;q=0.5, application/x-ndjson' }), '200 application/x-ndjson');
    for (const type of ndjsonTypes) assert.equal(await typeFor({ accept: type }), `200 ${type}`);
    assert.equal(await typeFor({ accept: 'text/*' }), '200 text/csv; charset=utf-8');
    assert.equal(await typeFor({ accept: 'application/json; charset=UTF-8' }), '200 application/json');
    assert.equal(await typeFor({ accept: 'text/csv;charset=utf-8;q=0.5, */*;q=0.1' }), '200 text/csv; charset=utf-8');
    assert.equal(await typeFor({ accept: 'text/csv; header=present' }), '200 text/csv; charset=utf-8');
    const headless = '200 text/csv; charset=utf-8; header=absent';
    for (const accept of ['text/csv;header=absent', 'text/csv; charset=utf-8; header=absent'])
      assert.equal(await typeFor({ accept }), headless);
    assert.equal(await typeFor({ accept: 'application/json; charset=latin1' }), '406 application/json; charset=utf-8');
    assert.equal(await typeFor({ accept: 'image/png' }), '406 application/json; charset=utf-8');
    const generated = { accept: 'application/json', 'user-agent': 'OpenAPI-Generator/0.13.0/python' };
    assert.equal(await typeFor(generated), file);
  });
});
