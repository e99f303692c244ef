/** Rows that people and programs without Arrow send. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ndjsonTypes } from '#src/rows/answer-form.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { numbersFrom, wideRows, wideStream } from './wide-table.ts';

const types = { json: 'application/json', ndjson: 'application/x-ndjson', csv: 'text/csv' } as const;
const lines = (...rows: readonly unknown[]): string => rows.map((row) => JSON.stringify(row)).join('\n');

/** Of values that the corpus has: types without a text of their own, and times beyond the years that JavaScript knows. */
const notTaken = /can be sent as Arrow only|NULL|ISO 8601/;

describe('rows as text', () => {
  const later = afterSuite();
  let service: TestService;
  let token: string;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later, { MAX_MERGE_SIZE: '64MiB' });
    token = await service.mint('lancegate:admin');
  });
  const newName = () => `t${++tables}`;
  const send = (path: string, format: keyof typeof types, text: string | Buffer, headers = {}) =>
    service.post(`/v1/table/${path}`, Buffer.from(text), { 'content-type': types[format], ...headers });
  const rowsIn = async (table: string, body: object = { k: 1_000 }): Promise<Record<string, unknown>[]> => {
    const answer = await fetch(`${service.url}/v1/table/${table}/query`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify(body),
    });
    const { rows } = (await answer.json()) as { rows: Record<string, unknown>[] };
    return rows.sort((a, b) => Number(a.id) - Number(b.id));
  };

  const people = [
    { id: 1, name: 'Ada', born: '1815-12-10', score: 1, ok: true, at: '2026-01-01T10:00:00Z', v: [1, 2], tags: ['a'] },
    {
      id: 2,
      name: null,
      score: 2.5,
      at: '2026-01-01T10:00:00.5+02:00',
      v: [0.5, -1],
      tags: [],
      who: { n: 9007199254740993n },
    },
  ];
  const asJson = (value: unknown) =>
    JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `#${each}#` : each)).replaceAll(/"#(\d+)#"/g, '$1');

  for (const format of ['json', 'ndjson'] as const) {
    test(`${format} makes a table whose types the answer names (P1)`, async () => {
      const table = newName();
      const text = format === 'json' ? asJson(people) : people.map(asJson).join('\n');
      const answer = succeeded(await send(`${table}/create`, format, text));
      assert.deepEqual(answer.columns, [
        { name: 'id', type: 'int64' },
        { name: 'name', type: 'utf8' },
        { name: 'born', type: 'date32' },
        { name: 'score', type: 'float64' },
        { name: 'ok', type: 'bool' },
        { name: 'at', type: 'timestamp(us, UTC)' },
        { name: 'v', type: 'fixed_size_list<float32>(2)' },
        { name: 'tags', type: 'list<utf8>' },
        { name: 'who', type: 'struct<n: int64>' },
      ]);
      assert.deepEqual(await rowsIn(table), [
        { ...people[0], who: null },
        { ...people[1], born: null, ok: null, at: '2026-01-01T08:00:00.500000Z', who: { n: '9007199254740993' } },
      ]);
    });
  }

  test('CSV makes a table too: empty cells are NULL, and digits behind a zero stay a text (P1)', async () => {
    const table = newName();
    const text = '\ufeffid,zip,name,x,ok,v\r\n1,01234,"say ""hi"", Ada",1.5,true,"[1,2]"\r\n2,98765,"",2,,"[3,4]"\r\n';
    const answer = succeeded(await send(`${table}/create`, 'csv', text));
    assert.deepEqual(
      (answer.columns as { type: string }[]).map(({ type }) => type),
      ['int64', 'utf8', 'utf8', 'float64', 'bool', 'fixed_size_list<float32>(2)'],
    );
    assert.deepEqual(await rowsIn(table), [
      { id: 1, zip: '01234', name: 'say "hi", Ada', x: 1.5, ok: true, v: [1, 2] },
      { id: 2, zip: '98765', name: '', x: 2, ok: null, v: [3, 4] },
    ]);
  });

  test('a column of several kinds has the JSON of what is no text, with all digits (P1)', async () => {
    const table = newName();
    const long = '12345678901234567890123';
    succeeded(
      await send(`${table}/create`, 'ndjson', `{"v":${long}}\n{"v":{"a":[${long},1.5]}}\n{"v":"x"}\n{"v":true}\n`),
    );
    assert.deepEqual(await rowsIn(table), [{ v: long }, { v: `{"a":[${long},1.5]}` }, { v: 'x' }, { v: 'true' }]);
  });

  test('a table that is there decides what a value is, in merges and inserts (P1, P2)', async () => {
    const table = newName();
    const schema = schemaOf([
      field('id', { kind: 'int', bitWidth: 32, signed: true }, { nullable: false }),
      field('price', { kind: 'decimal', bitWidth: 128, precision: 10, scale: 2 }),
      field('kind', { kind: 'utf8' }, { dictionary: { id: 0n, index: { bitWidth: 8, signed: true }, ordered: false } }),
      field('half', { kind: 'float', bitWidth: 16 }),
      field('s', { kind: 'struct' }, { children: [field('a', { kind: 'utf8' }), field('b', { kind: 'bool' })] }),
    ]);
    const stored = { id: [1, 2], price: [100n, 200n], kind: ['x', 'y'], half: [1, 2], s: [{ a: 'a', b: true }, null] };
    succeeded(await service.post(`/v1/table/${table}/create`, encodeStream(schema, [stored])));
    const merge = `${table}/merge_insert?on=id&when_matched_update_all&when_not_matched_insert_all`;
    const merged = lines({ id: 2, kind: 'z', half: 0.5 }, { id: 3, kind: 'x', half: 1.5 });
    assert.deepEqual(succeeded(await send(merge, 'ndjson', merged)).num_inserted_rows, 1);
    succeeded(await send(merge, 'json', JSON.stringify([{ id: 1, s: { b: false } }])));
    succeeded(await send(`${table}/insert`, 'csv', 'id,price,s\n4,9.99,"{""a"":""q""}"\n'));
    assert.deepEqual(await rowsIn(table), [
      { id: 1, price: '1.00', kind: 'x', half: 1, s: { a: 'a', b: false } },
      { id: 2, price: '2.00', kind: 'z', half: 0.5, s: null },
      { id: 3, price: null, kind: 'x', half: 1.5, s: null },
      { id: 4, price: '9.99', kind: null, half: null, s: { a: 'q', b: null } },
    ]);
  });

  test('no rows change nothing, in merges and inserts of each format (P4)', async () => {
    const table = newName();
    const { version } = succeeded(await send(`${table}/create`, 'json', '[{"id":1,"name":"Ada"}]'));
    for (const [format, text] of [
      ['json', '[]'],
      ['ndjson', '\n'],
      ['csv', 'id,name\n'],
    ] as const) {
      const merged = succeeded(await send(`${table}/merge_insert?on=id`, format, text));
      assert.deepEqual([merged.version, merged.num_updated_rows, merged.num_inserted_rows], [version, 0, 0]);
      assert.equal(succeeded(await send(`${table}/insert`, format, text)).num_inserted_rows, 0);
    }
    assert.deepEqual(await rowsIn(table), [{ id: 1, name: 'Ada' }]);
  });

  test('a value that does not fit is refused with its place, and nothing is written (P1)', async () => {
    const table = newName();
    succeeded(await send(`${table}/create`, 'ndjson', lines({ id: 1, at: '2026-01-01', v: [1, 2], s: { a: 1 } })));
    const cases: readonly (readonly [keyof typeof types, string, RegExp])[] = [
      ['ndjson', lines({ id: 2 }, { id: 'three' }), /^line 2, column id: this text is no int64$/],
      ['json', '[{"id":2},{"id":2.5}]', /^row 2, column id: this number is no int64$/],
      ['csv', 'id,at\n2,2026-02-30\n', /^line 2, column at: this text is no date \(ISO 8601\)$/],
      ['json', '[{"id":2,"v":[1,2,3]}]', /^row 1, column v: has 3 values where a vector of 2 belongs$/],
      ['json', '[{"id":2,"s":{"a":"x"}}]', /^row 1, column s\.a: this text is no int64$/],
      ['json', '[{"id":2,"nope":1}]', /^row 1: column nope does not exist in the table$/],
      ['json', '[{"id":2}', /^row 2: the JSON ends before its array does$/],
      ['json', '{"id":2}', /^rows of JSON are an array of objects, .* application\/x-ndjson$/],
      ['json', '[{"id":}]', /^row 1 is not JSON/],
      ['json', '[{"id":2}] x', /something follows the array of rows/],
      ['ndjson', lines({ id: 2 }, [3]), /^line 2: a row is an object/],
      ['csv', 'id,at\n2\n', /^line 2: it has 1 cell, and there are 2 columns$/],
      ['csv', 'id,at,id\n2,,3\n', /^the first line: columns 1 and 3 are both named "id"$/],
      ['csv', 'id,,at\n2,,3\n', /^the first line: column 2 of 3 has no name$/],
      ['csv', 'id;at\n2;3\n', /semicolons or tabs and no comma/],
      ['csv', 'id\tat\n2\t3\n', /semicolons or tabs and no comma/],
      ['csv', 'id,at\n2,"x\n', /a quotation mark is opened and not closed/],
      ['json', '[{"id":9223372036854775808}]', /this number is no int64/],
    ];
    for (const [format, text, says] of cases) refused(await send(`${table}/insert`, format, text), 400, 13, says);
    const bytes = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    refused(await send(`${table}/insert`, 'ndjson', bytes), 400, 13, /line 1: the text is not UTF-8/);
    assert.equal((await rowsIn(table)).length, 1);
  });

  test('a first column without a name, as pandas and R write it, is c1', async () => {
    const table = newName();
    succeeded(await send(`${table}/create`, 'csv', ',name\n0,Ada\n1,Grace\n'));
    succeeded(await send(`${table}/insert`, 'csv', '"","name"\n"2","Barbara"\n'));
    assert.deepEqual((await rowsIn(table)).map(({ c1, name }) => `${c1} ${name}`).sort(), [
      '0 Ada',
      '1 Grace',
      '2 Barbara',
    ]);
  });

  test('CSV without a line of names has the columns of the table, in its order, and of a new one c1, c2 and so on', async () => {
    const table = newName();
    const absent = { 'content-type': 'text/csv; header=absent' };
    const made = succeeded(await send(`${table}/create`, 'csv', '1,Ada\n2,Grace\n', absent));
    assert.deepEqual(made.columns, [
      { name: 'c1', type: 'int64' },
      { name: 'c2', type: 'utf8' },
    ]);
    succeeded(await send(`${table}/merge_insert?on=c1`, 'csv', '2,Hopper\n', absent));
    succeeded(
      await send(`${table}/insert`, 'csv', 'c2,c1\nBarbara,3\n', { 'content-type': 'text/csv;header="present"' }),
    );
    const names = (await rowsIn(table)).map(({ c1, c2 }) => `${c1} ${c2}`);
    assert.deepEqual(names.sort(), ['1 Ada', '2 Hopper', '3 Barbara']);
    refused(
      await send(`${table}/insert`, 'csv', '4\n', absent),
      400,
      13,
      /^line 1: it has 1 cell, and there are 2 columns$/,
    );
  });

  test('a type whose parameters cannot be honoured is refused by their name', async () => {
    const typed = (type: string) => send(`${newName()}/create`, 'csv', 'id\n1\n', { 'content-type': type });
    refused(await typed('text/csv; header=no'), 400, 13, /^content-type: header: expected present or absent$/);
    refused(await typed('text/csv; charset=latin1'), 400, 13, /^content-type: charset: rows come as UTF-8$/);
    succeeded(await typed('Text/CSV; charset="UTF-8"; header=present'));
  });

  test('newline-delimited JSON is taken under each name that it has', async () => {
    for (const type of ndjsonTypes)
      succeeded(await send(`${newName()}/create`, 'ndjson', '{"id":1}', { 'content-type': `${type}; charset=utf-8` }));
  });

  test('names of objects that JavaScript has of its own are columns like others (P12)', async () => {
    const table = newName();
    const text = '[{"id":1,"__proto__":"p","constructor":"c","toString":null},{"id":2}]';
    succeeded(await send(`${table}/create`, 'json', text));
    const rows = await rowsIn(table);
    assert.equal(
      JSON.stringify(rows),
      '[{"id":1,"__proto__":"p","constructor":"c","toString":null},{"id":2,"__proto__":null,"constructor":null,"toString":null}]',
    );
  });

  test('a body that is retried under its key is done once (P4)', async () => {
    const table = newName();
    succeeded(await send(`${table}/create`, 'ndjson', lines({ id: 1 })));
    for (let round = 0; round < 2; round++) {
      const answer = await send(`${table}/insert`, 'ndjson', lines({ id: 2 }), { 'idempotency-key': 'once' });
      assert.equal(succeeded(answer).num_inserted_rows, 1);
    }
    refused(
      await send(`${table}/insert`, 'ndjson', lines({ id: 3 }), { 'idempotency-key': 'once' }),
      400,
      13,
      /with another body/,
    );
    assert.equal((await rowsIn(table)).length, 2);
  });

  test('a large body is converted in parts, also a compressed one (P7)', async () => {
    const table = newName();
    const row = (id: number) => ({ id, text: `text of row ${id}`.repeat(5), x: id / 2 });
    const text = lines(...Array.from({ length: 60_000 }, (_, id) => row(id)));
    succeeded(await send(`${table}/create`, 'ndjson', gzipSync(text), { 'content-encoding': 'gzip' }));
    const csv = ['id,text,x', ...Array.from({ length: 30_000 }, (_, i) => `${60_000 + i},,${i}`)].join('\n');
    succeeded(await send(`${table}/insert`, 'csv', csv));
    const count = await service.post(`/v1/table/${table}/count_rows`, {});
    assert.equal(Number(count.body), 90_000);
    assert.deepEqual(await rowsIn(table, { k: 10, filter: 'id = 59999' }), [row(59_999)]);
    const late = `${lines(...Array.from({ length: 20_000 }, (_, id) => row(id)))}\n{"id":1,"more":2}`;
    refused(
      await send(`${table}/insert`, 'ndjson', late),
      400,
      13,
      /^line 20001: column "more" is in none of the first rows/,
    );
  });

  test('every type that can be sent as text comes back from its own text (P1)', async () => {
    succeeded(await service.post('/v1/table/wide/create', wideStream([wideRows(numbersFrom(0, 40))], 'none')));
    const rows = await rowsIn('wide');
    const kept = Object.keys(rows[0]!);
    let taken = 0;
    for (const name of kept.filter((column) => column !== 'n')) {
      const sent = rows.map((row) => ({ n: row.n, [name]: row[name] }));
      const answer = await send(`wide/merge_insert?on=n&when_matched_update_all`, 'json', JSON.stringify(sent));
      if (answer.status === 400) assert.match(String(answer.body.error), notTaken, name);
      else taken += 1;
    }
    assert.ok(taken > 20, `${taken} of ${kept.length}`);
    assert.deepEqual((await rowsIn('wide')).map(asJson).sort(), rows.map(asJson).sort());
  });

  test('a bomb is refused, and the next body is taken (P7, P12)', async () => {
    const table = newName();
    succeeded(await send(`${table}/create`, 'ndjson', lines({ id: 1, l: [['a']] })));
    const insert = (format: keyof typeof types, text: string | Buffer, headers = {}) =>
      send(`${table}/insert`, format, text, headers);
    const many = `{"id":2,"l":[${'[],'.repeat(500_000)}[]]}`;
    refused(await insert('ndjson', many), 400, 13, /line 1: a row has at most 200000 values/);
    refused(await insert('json', `[{"id":2,"l":${'['.repeat(100_000)}`), 400, 13, /row 1: the JSON ends before/);
    refused(
      await insert('ndjson', `{"id":2,"l":${'['.repeat(40)}${']'.repeat(40)}}`),
      400,
      13,
      /nested more than 16 deep/,
    );
    refused(await insert('csv', `id,l\n2,"${'x'.repeat(9 << 20)}`), 400, 13, /line 2: a row has at most 8388608 bytes/);
    const columns = `{${Array.from({ length: 10_100 }, (_, i) => `"c${i}":1`).join()}}`;
    refused(await send(`${newName()}/create`, 'ndjson', columns), 400, 13, /more than 10000 columns and fields/);
    const spaces = gzipSync(Buffer.alloc(200 << 20, ' '));
    const merge = `${table}/merge_insert?on=id`;
    refused(await send(merge, 'json', spaces, { 'content-encoding': 'gzip' }), 413, 13, /more than the \d+ bytes/);
    assert.equal(succeeded(await insert('ndjson', lines({ id: 3 }))).num_inserted_rows, 1);
  });
});
