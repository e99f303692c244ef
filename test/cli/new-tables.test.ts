/** Tables that `load` makes: of what columns, when, and of which rows. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { Table, writeParquet } from 'parquet-wasm/node';
import { systemClock } from '#src/kernel/clock.ts';
import { listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { runInProcess } from './in-process.ts';

interface Loaded {
  readonly rows: number;
  readonly parts: number;
  readonly partsThereBefore: number;
  readonly inserted?: number;
  readonly updated?: number;
  readonly duplicates?: number;
  readonly stale?: number;
}

describe('tables that a load makes', () => {
  const later: (() => unknown)[] = [];
  const data = temporaryFolder((clean) => later.push(clean));
  const folder = temporaryFolder((clean) => later.push(clean));
  let service: ChildProcess;
  before(async () => {
    const env = { PATH: process.env.PATH };
    service = spawn(process.execPath, serveArguments(data, 'error'), { env, stdio: ['ignore', 'pipe', 'inherit'] });
    await listeningUrl(service);
  });
  after(() => {
    service.kill('SIGKILL');
    for (const each of later.reverse()) each();
  });

  const run = (args: readonly string[], stdin = '') =>
    runInProcess([...args, '--data', data], { clock: systemClock, stdin });

  function file(name: string, content: string | Uint8Array): string {
    const path = join(folder, name);
    writeFileSync(path, content);
    return path;
  }

  async function load(...args: readonly string[]): Promise<Loaded> {
    const { code, stdout, stderr } = await run(['load', ...args]);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout.toString()) as Loaded;
  }

  async function rowsOf(table: string, ...args: readonly string[]): Promise<readonly unknown[]> {
    const { code, stdout, stderr } = await run(['query', table, '--json', ...args]);
    assert.equal(code, 0, stderr);
    return (JSON.parse(stdout.toString()) as { readonly rows: readonly unknown[] }).rows;
  }

  async function countQuickly(table: string): Promise<number> {
    const { stdout } = await run(['show', table]);
    return (JSON.parse(stdout.toString()) as { readonly rows: number }).rows;
  }

  test('takes the last or the newest row of a key, and says how many it passed over', async () => {
    const twice = file('twice.csv', 'id,name,at\n1,old,1\n1,new,3\n1,late,2\n');
    const refused = await run(['load', 'ruled', twice, '--on', 'id']);
    assert.match(refused.stderr, /a key twice/);
    const last = await load('ruled', twice, '--on', 'id', '--on-duplicate', 'last');
    assert.deepEqual([last.inserted, last.duplicates, last.stale], [1, 2, 0]);
    assert.deepEqual(await rowsOf('ruled'), [{ id: 1, name: 'late', at: 2 }]);
    const newest = await load('ruled', twice, '--on', 'id', '--version-column', 'at');
    assert.deepEqual([newest.updated, newest.duplicates, newest.stale], [1, 2, 0]);
    const late = await load(
      'ruled',
      file('late.csv', 'id,name,at\n1,later,1\n'),
      '--on',
      'id',
      '--version-column',
      'at',
    );
    assert.deepEqual([late.updated, late.duplicates, late.stale], [0, 0, 1]);
    assert.deepEqual(await rowsOf('ruled'), [{ id: 1, name: 'new', at: 3 }]);
    const noKey = await run(['load', 'ruled', twice, '--append', '--version-column', 'at']);
    assert.match(noKey.stderr, /need --on COLUMN/);
  });

  test('has no columns of a table whose first rows were refused, so that the corrected command makes it', async () => {
    const path = file('zip.csv', 'id,zip\n1,10115\n1,80331\n');
    const refused = await run(['load', 'corrected', path, '--on', 'id']);
    assert.match(refused.stderr, /zip\.csv, rows 1 to 2: the source holds a key twice: .*; nothing is loaded\n$/);
    const keyless = await run(['load', 'keyless', path, '--on', 'idd']);
    assert.match(keyless.stderr, /--on: there is no column idd; the columns are id, zip\n$/);
    assert.ok(!(await run(['tables'])).stdout.toString().includes('keyless'));
    const unread = await run(['load', 'corrected', file('zip.ndjson', '{"id":1}\n{"id":\n'), '--append']);
    assert.match(
      unread.stderr,
      /zip\.ndjson: line 2 is not JSON: it ends before its object does; each .* array, .*; nothing is loaded\n$/,
    );
    await load('corrected', file('zip.csv', 'id,zip\n1,10115\n2,01067\n'), '--on', 'id', '--types', 'zip=utf8');
    const loaded = await load('corrected', join(folder, 'zip.csv'), '--on', 'id', '--types', 'zip=utf8');
    assert.deepEqual([loaded.rows, loaded.parts, loaded.partsThereBefore], [2, 1, 1]);
    assert.deepEqual(await rowsOf('corrected', '--order-by', 'id'), [
      { id: 1, zip: '10115' },
      { id: 2, zip: '01067' },
    ]);
  });

  test('does not make the table of a file that cannot be read to the end of its first part', async () => {
    const lines = Array.from({ length: 80_000 }, (_, id) => `{"id":${id},"n":1}\n`).join('');
    const { stderr } = await run(['load', 'unmade', file('late.ndjson', `${lines}{"id":0,"n":"x"}\n`), '--append']);
    assert.match(stderr, /late\.ndjson: line 80001, column n: this text is no int64; nothing is loaded\n$/);
    assert.ok(!(await run(['tables'])).stdout.toString().includes('unmade'));
  });

  test('says how many rows are loaded where a later part cannot be read', async () => {
    const row = (id: number) => `{"id":${id},"v":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}\n`;
    const lines = Array.from({ length: 80_000 }, (_, id) => row(id)).join('');
    const path = file('later.ndjson', `${lines}{"id":\n`);
    const { stderr } = await run(['load', 'later', path, '--append']);
    const [, rows] = /later\.ndjson: line 80001 is not JSON: .*; (\d+) rows before it are loaded\n$/.exec(stderr) ?? [];
    assert.equal(await countQuickly('later'), Number(rows), stderr);
    writeFileSync(path, `${lines}${row(80_000)}`);
    await load('later', path, '--append');
    assert.equal(await countQuickly('later'), 80_001);
  });

  test('makes a table without rows of a file that has columns alone', async () => {
    const empty = tableToIPC(tableFromArrays({ id: new Int32Array(0) }), 'file');
    const loaded = await load('rowless', file('empty.arrow', empty), '--on', 'id');
    assert.deepEqual([loaded.rows, loaded.parts], [0, 0]);
    assert.deepEqual(await rowsOf('rowless'), []);
  });

  test('takes no part twice of the types that files can have, in a table that it made', async () => {
    const rows = 60_000;
    const types = tableFromArrays({
      id: Int32Array.from({ length: rows }, (_, at) => at),
      word: Array.from({ length: rows }, (_, at) => `word ${at % 7}`),
      kind: Uint8Array.from({ length: rows }, (_, at) => at % 3),
      at: Array.from({ length: rows }, (_, at) => new Date(at * 86_400_000)),
      flag: Array.from({ length: rows }, (_, at) => (at % 5 === 0 ? null : at % 2 === 0)),
      share: Float32Array.from({ length: rows }, (_, at) => at / 7),
      texts: Array.from({ length: rows }, (_, at) => `${'a long text about nothing in particular '.repeat(3)}${at}`),
    });
    const lines = Array.from(
      { length: rows },
      (_, at) =>
        `${JSON.stringify({ id: at, d: '2026-01-31', t: '2026-01-31T10:00:00Z', v: [1, 2.5], l: ['a'], s: { a: at, b: [`x${at}`] }, n: null, f: at / 3 })}\n`,
    ).join('');
    const stream = tableToIPC(types, 'stream');
    for (const [table, path] of Object.entries({
      'types-arrow': file('types.arrow', tableToIPC(types, 'file')),
      'types-parquet': file('types.parquet', writeParquet(Table.fromIPCStream(stream))),
      'types-ndjson': file('types.ndjson', lines),
    })) {
      const first = await load(table, path, '--append');
      assert.ok(first.parts > 1, `${table}: ${first.parts} parts`);
      const again = await load(table, path, '--append');
      assert.deepEqual([again.parts, again.partsThereBefore], [first.parts, first.parts], table);
      assert.equal(await countQuickly(table), rows, table);
    }
  });

  test('cells of CSV are separated by what --delimiter says, and by tabs where the name ends in .tsv', async () => {
    const text = 'id|name\n1|a, b\n2|"c|d"\n';
    const rows = [
      { id: 1, name: 'a, b' },
      { id: 2, name: 'c|d' },
    ];
    for (const [name, character, args] of [
      ['excel.csv', ';', ['--delimiter', ';']],
      ['tabs.txt', '\t', ['--delimiter', 'tab']],
      ['tabs.TSV', '\t', []],
      ['tabs.tsv.gz', '\t', []],
    ] as const) {
      const table = `by ${name}`;
      const content = text.replaceAll('|', character);
      const path = file(name, name.endsWith('.gz') ? gzipSync(content) : content);
      await load(table, path, '--append', ...args);
      const read = rows.map((row) => ({ ...row, name: row.name.replace('|', character) }));
      assert.deepEqual(await rowsOf(table, '--order-by', 'id'), read, name);
    }
    const unsaid = await run(['load', 'unsaid', join(folder, 'excel.csv'), '--append']);
    assert.match(unsaid.stderr, /semicolons or tabs and no comma; .* --delimiter; nothing is loaded\n$/);
    for (const [name, header, fault] of [
      ['quoted.csv', 'id;"size; cm"', /^lancegate: .*line 1: a quotation mark .* --delimiter; nothing is loaded\n$/],
      [
        'comma.csv',
        'price, net;count',
        /the first line has semicolons or tabs and 1 comma; .* --delimiter; nothing is/,
      ],
    ] as const) {
      const { stderr } = await run(['load', 'unsaid', file(name, `${header}\n1,5;2\n`), '--append']);
      assert.match(stderr, fault, name);
    }
    await load('marks in names', file('marks.csv', '"a;b",c\n1,2\n'), '--append');
    assert.deepEqual(await rowsOf('marks in names'), [{ 'a;b': 1, c: 2 }]);
    const wrong = await run(['load', 'unsaid', join(folder, 'excel.csv'), '--append', '--delimiter', 'semicolon']);
    assert.deepEqual([wrong.code, /--delimiter.*expected a character such as ; or \|/.test(wrong.stderr)], [2, true]);
  });

  test('columns of JSON that come late are named, and taken where --types has them', async () => {
    const early = Array.from({ length: 20_000 }, (_, id) => `{"id":${id}}\n`).join('');
    const path = file('sparse.ndjson', `${early}{"id":20000,"extra":7}\n`);
    const unsaid = await run(['load', 'sparse', path, '--append']);
    assert.match(
      unsaid.stderr,
      /line 20001: column "extra" is in none of the first rows.* --types extra=TYPE; nothing/,
    );
    for (const table of ['sparse', 'sparse', 'there']) {
      if (table === 'there')
        await load(table, file('first.json', '[{"id":-1,"extra":null}]'), '--append', '--types', 'extra=int64');
      await load(table, path, '--append', '--types', 'extra=int64');
      assert.deepEqual(await rowsOf(table, '--where', 'extra = 7'), [{ id: 20_000, extra: 7 }]);
    }
    assert.equal(await countQuickly('sparse'), 20_001);
    const misspelt = await run(['load', 'misspelt', path, '--append', '--types', 'idd=utf8']);
    assert.match(misspelt.stderr, /there is no column "idd"; the columns are id/);
  });

  const arrow = tableToIPC(tableFromArrays({ id: Int32Array.of(1) }), 'file');

  test('a file that is not what its name says is refused, and read where --format says what it is', async () => {
    for (const [name, content, says] of [
      [
        'a.parquet',
        'id,n\n1,2\n',
        /its name ends in \.parquet, but .* looks like csv: with --format csv, load reads it/,
      ],
      ['a.arrow', '[{"id":1}]', /its name ends in \.arrow, but .* looks like json: with --format json/],
      ['a.feather', '', /its name ends in \.feather, but .* is empty/],
      ['a.csv', 'PK\u0003\u0004\0\0', /it is a ZIP archive, as workbooks of spreadsheets are/],
      ['a.arrow.gz', gzipSync(arrow), /it is packed as a whole, which only files of text may be: unpack it first/],
      ['b.csv', 'i\0d\0,\0', /it is no text/],
    ] as const) {
      const { code, stderr } = await run(['load', 'named', file(name, content), '--append']);
      assert.equal(code, 1);
      assert.match(stderr, says);
    }
    const typed = file('own.arrow', arrow);
    const { stderr } = await run(['load', 'named', typed, '--append', '--types', 'id=utf8']);
    assert.match(
      stderr,
      /own\.arrow: --types applies to text, and this file has types of its own; nothing is loaded\n$/,
    );
    await load('named', join(folder, 'a.parquet'), '--append', '--format', 'csv');
    await load('named', file('c.csv', '3,4\n'), '--append', '--format', 'csv-without-header');
    assert.deepEqual(await rowsOf('named', '--order-by', 'id'), [
      { id: 1, n: 2 },
      { id: 3, n: 4 },
    ]);
  });
});
