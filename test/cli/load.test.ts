/** `load` and `export`, as processes against a real service. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { tableFromArrays, tableFromIPC, tableToIPC } from 'apache-arrow';
import { Table, writeParquet } from 'parquet-wasm/node';
import { systemClock } from '#src/kernel/clock.ts';
import { listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';
import { Random } from '#test/model/random.ts';
import { runInProcess } from './in-process.ts';

const deaths = Number(process.env.LANCEGATE_TEST_LOAD_DEATHS ?? 2);
const seed = Number(process.env.LANCEGATE_TEST_SEED ?? 1);

/** Without the LANCEGATE_* variables of the user who runs the tests. */
const env = { PATH: process.env.PATH };

const later: (() => unknown)[] = [];
const data = temporaryFolder((clean) => later.push(clean));
const folder = temporaryFolder((clean) => later.push(clean));
let service: ChildProcess;

/** Answers its port. */
async function startService(port = '0'): Promise<string> {
  const args = [...serveArguments(data, 'error').filter((word) => !['--port', '0'].includes(word)), '--port', port];
  service = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  return new URL((await listeningUrl(service))!).port;
}

let port = '';

const file = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

const run = (args: readonly string[], stdin = '') =>
  runInProcess([...args, '--data', data], { clock: systemClock, stdin });

interface Loaded {
  readonly rows: number;
  readonly inserted: number;
  readonly updated: number;
  readonly parts: number;
  readonly partsThereBefore: number;
  readonly refused: number;
}

async function load(...args: readonly string[]): Promise<Loaded> {
  const { code, stdout, stderr } = await run(['load', ...args]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout.toString()) as Loaded;
}

async function drop(table: string): Promise<void> {
  const scope = ['--subject', 'ada', '--scope', 'lancegate:admin'];
  const token = (await run(['token', ...scope])).stdout.toString().trim();
  const url = `http://127.0.0.1:${port}/v1/table/${table}/drop`;
  const answer = await fetch(url, { method: 'POST', headers: { authorization: `Bearer ${token}` } });
  assert.equal(answer.status, 200);
}

async function rowsOf(table: string, ...args: readonly string[]): Promise<readonly object[]> {
  const { code, stdout, stderr } = await run(['query', table, ...args]);
  assert.equal(code, 0, stderr);
  const text = stdout.toString().trimEnd();
  return text === '' ? [] : text.split('\n').map((line) => JSON.parse(line) as object);
}

const people = [
  { id: 1, name: 'Ada' },
  { id: 2, name: 'Grace, "Amazing"' },
];
const csv = 'id,name\n1,Ada\n2,"Grace, ""Amazing"""\n';

const arrow = tableToIPC(
  tableFromArrays({ id: BigInt64Array.of(1n, 2n), name: people.map(({ name }) => name) }),
  'file',
);

describe('files and tables', () => {
  before(async () => {
    port = await startService();
  });
  after(() => {
    service.kill('SIGKILL');
    for (const each of later.reverse()) each();
  });

  describe('load', () => {
    test('takes every format, by what the file is, and makes the table that is not there', async () => {
      const stream = tableToIPC(tableFromIPC(arrow), 'stream');
      const files = {
        csv: file('people.csv', csv),
        packed: file('people.csv.gz', gzipSync(csv)),
        json: file('people.json', JSON.stringify(people)),
        ndjson: file('people.txt', people.map((row) => `${JSON.stringify(row)}\n`).join('')),
        arrow: file('people.arrow', arrow),
        stream: file('people.arrows', stream),
        parquet: file('people.parquet', writeParquet(Table.fromIPCStream(stream))),
      };
      for (const [table, path] of Object.entries(files)) {
        const loaded = await load(table, path, '--append');
        assert.deepEqual(
          loaded,
          {
            ...{ table, rows: 2, refused: 0, inserted: 2, updated: 0, parts: 1, partsThereBefore: 0 },
          },
          table,
        );
        assert.deepEqual(await rowsOf(table, '--order-by', 'id'), people, table);
      }
    });

    test('run again adds nothing, whatever the file is called, and something under another label', async () => {
      const first = await load('again', file('a.csv', csv), '--append');
      const renamed = await load('again', file('b.csv', csv), '--append');
      assert.deepEqual([first.partsThereBefore, renamed.partsThereBefore], [0, 1]);
      const said = (await run(['load', 'again', join(folder, 'a.csv'), '--append'])).stderr;
      assert.equal(said, '1 of 1 parts were loaded before; --run WORD loads them once more\n');
      assert.equal((await rowsOf('again')).length, 2);
      await load('again', file('a.csv', csv), '--append', '--run', 'twice');
      assert.equal((await rowsOf('again')).length, 4);
    });

    test('loads again into a table that was dropped and made anew', async () => {
      const path = file('dropped.csv', csv);
      await load('dropped', path, '--append');
      await drop('dropped');
      const loaded = await load('dropped', path, '--append');
      assert.equal(loaded.partsThereBefore, 0);
      assert.deepEqual(await rowsOf('dropped', '--order-by', 'id'), people);
    });

    test('upserts on a key, takes several files, patterns and the standard input', async () => {
      await load('upserts', file('u1.csv', csv), '--on', 'id');
      file('more-1.csv', 'id,name\n2,Hopper\n');
      file('more-2.csv', 'id,name\n3,Barbara\n');
      const loaded = await load('upserts', join(folder, 'more-*.csv'), '--on', 'id');
      assert.deepEqual([loaded.rows, loaded.inserted, loaded.updated, loaded.parts], [2, 1, 1, 2]);
      const { code, stderr } = await run(['load', 'upserts', '-', '--on', 'id'], '{"id":1,"name":"Lovelace"}\n');
      assert.equal(code, 0, stderr);
      assert.deepEqual(
        (await rowsOf('upserts', '--order-by', 'id')).map((row) => Object.values(row)),
        [
          [1, 'Lovelace'],
          [2, 'Hopper'],
          [3, 'Barbara'],
        ],
      );
    });

    test('makes a table of the standard input, and does not take the same one twice', async () => {
      const lines = Array.from({ length: 25_000 }, (_, id) => `{"id":${id},"note":"what is said of ${id}"}\n`).join('');
      for (const partsThereBefore of [0, 1]) {
        const { code, stdout, stderr } = await run(['load', 'piped', '-', '--append'], lines);
        assert.equal(code, 0, stderr);
        const loaded = JSON.parse(stdout.toString()) as Loaded;
        assert.deepEqual([loaded.rows, loaded.parts, loaded.partsThereBefore], [25_000, 1, partsThereBefore]);
      }
      const ends = await rowsOf('piped', '--where', 'id IN (0, 24999)', '--order-by', 'id');
      assert.deepEqual(
        ends.map((row) => Object.values(row)[1]),
        ['what is said of 0', 'what is said of 24999'],
      );
      assert.equal((await rowsOf('piped', '--limit', '100000')).length, 25_000);
    });

    test('values of several kinds in a column become texts, in a table that is new and in one that is there', async () => {
      const path = file('mixed.ndjson', '{"id":1,"v":1}\n{"id":2,"v":"x"}\n{"id":3,"v":{"a":12345678901234567890}}\n');
      await load('mixed', path, '--append');
      await load('mixed', path, '--append', '--run', 'again');
      const nested = '{"a":12345678901234567890}';
      const texts = ['1', '1', 'x', 'x', nested, nested];
      assert.deepEqual(
        (await rowsOf('mixed', '--order-by', 'id')).map((row) => Object.values(row)[1]),
        texts,
      );
    });

    test('a column by itself keeps its NULLs on the way out and in', async () => {
      await load('one', file('one.csv', 'a\n1\n\n3\n'), '--append');
      const path = join(folder, 'one-out.csv');
      const { code, stderr } = await run(['export', 'one', path]);
      assert.equal(code, 0, stderr);
      await load('two', path, '--append');
      for (const table of ['one', 'two']) assert.deepEqual(await rowsOf(table), [{ a: 1 }, { a: null }, { a: 3 }]);
    });

    test('replaces rows and columns at once, and leaves the old ones where it cannot read to the end', async () => {
      await load('replaced', file('r1.csv', csv), '--append');
      await load('replaced', file('r2.csv', 'city\nBerlin\n'), '--replace');
      assert.deepEqual(await rowsOf('replaced'), [{ city: 'Berlin' }]);
      const broken = await run(['load', 'replaced', file('r3.csv', 'city\nParis\n"Lon'), '--replace']);
      assert.equal(broken.code, 1);
      assert.match(
        broken.stderr,
        /^lancegate: \S+r3\.csv: line 3: a quotation mark is opened and not closed; nothing is loaded\n$/,
      );
      assert.deepEqual(await rowsOf('replaced'), [{ city: 'Berlin' }]);
    });

    test('shows what it would make, with the types that are given', async () => {
      const path = file('dry.csv', 'id,zip\n1,01234\n');
      const { stdout } = await run(['load', 'dry', path, '--dry-run', '--types', 'zip=utf8', '--csv']);
      assert.equal(stdout.toString(), 'column,type,nullable\nid,int64,true\nzip,utf8,true\n');
      await load('dry', path, '--append', '--types', 'zip=utf8');
      const other = await run(['load', 'dry', path, '--append', '--types', 'zip=int64']);
      assert.match(other.stderr, /--types: column zip of the table, which is there, is utf8; with --replace .*\n$/);
      assert.deepEqual(await rowsOf('dry'), [{ id: 1, zip: '01234' }]);
    });

    test('says in one sentence what is wrong and where', async () => {
      await load('strict', file('s.csv', 'id,n\n1,1\n'), '--append');
      for (const [args, expected] of [
        [['strict', file('bad.csv', 'id,n\n2,2\n3,x\n'), '--append'], /bad\.csv: line 3, column n: .*\n$/],
        [['strict', file('bad.ndjson', '{"id":1}\n{"id":\n'), '--append'], /bad\.ndjson: line 2 is not JSON.*\n$/],
        [
          ['strict', file('other.csv', 'id,m\n1,1\n'), '--append'],
          /other\.csv: line 2: column m does not exist in the table; nothing is loaded\n$/,
        ],
        [
          ['strict', file('bad.parquet', 'PAR1 and nothing else'), '--append'],
          /bad\.parquet: its footer cannot be read: .*\n$/,
        ],
        [
          ['strict', file('keys.csv', 'id,n\n9,1\n9,2\n'), '--on', 'id'],
          /keys\.csv, rows 1 to 2: the source holds a key twice: id = 9 in rows 1 and 2 .*; nothing is loaded\n$/,
        ],
        [['strict', join(folder, 'none.csv'), '--append'], /there is no file .*none\.csv\n$/],
        [['strict', folder, '--append'], /cannot be read: it is a folder\n$/],
      ] as const) {
        const { code, stderr } = await run(['load', ...args]);
        assert.equal(code, 1, stderr);
        assert.match(stderr, expected);
        assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
      }
      assert.equal((await rowsOf('strict')).length, 1);
      const unsaid = await run(['load', 'strict', join(folder, 's.csv')]);
      assert.deepEqual([unsaid.code, /--on COLUMN, --append and --replace/.test(unsaid.stderr)], [2, true]);
    });

    test('loads what it can where the rest may be left out, and says which lines those are', async () => {
      await load('some', file('ok.csv', 'id,n\n0,0\n'), '--append');
      const refusedFile = join(folder, 'refused.ndjson');
      const mixed = file('mixed.csv', 'id,n\n1,1\n2,x\n\n"3",3,3\n4,"four\nand"\n5,5\n6,six\n');
      const lines = file(
        'mixed.ndjson',
        '{"id":7,"n":7}\n{"id":\n[8]\n{"id":9,"m":9}\n{"id":10,"n":10.5}\n{"id":11,"n":11}\n',
      );
      const loaded = await load('some', mixed, lines, '--append', '--refused', refusedFile);
      assert.deepEqual([loaded.rows, loaded.refused], [4, 8]);
      assert.deepEqual(
        ((await rowsOf('some', '--order-by', 'id')) as readonly { readonly id: number }[]).map(({ id }) => id),
        [0, 1, 5, 7, 11],
      );
      const refused = readFileSync(refusedFile, 'utf8').trimEnd().split('\n');
      assert.deepEqual(
        refused
          .map((line) => /(line \d+)/.exec((JSON.parse(line) as { readonly reason: string }).reason)?.[1])
          .toSorted(),
        ['line 2', 'line 3', 'line 3', 'line 4', 'line 5', 'line 5', 'line 6', 'line 9'],
      );
    });

    test(`killed ${deaths} times, it has every row once in the end (P6)`, async () => {
      const random = new Random(seed);
      const rows = 240_000 * (deaths + 1);
      const path = file('large.arrow', tableToIPC(largeTable(rows), 'file'));
      await load('killed', file('one.arrow', tableToIPC(largeTable(1), 'file')), '--append');
      const countOf = async (): Promise<number> =>
        ((await rowsOf('killed', '--columns', 'id')) as readonly object[]).length;
      let there = 1;
      for (let death = 0; death < deaths; death += 1) {
        const until = there + random.int(Math.ceil(rows / (deaths + 1)));
        const child = spawnLoad('killed', path);
        const exited = once(child, 'exit');
        const isFar = async () => (await countQuickly('killed')) >= until || child.exitCode !== null;
        await eventually(`${until} rows are there`, isFar);
        child.kill('SIGKILL');
        await exited;
        there = await countQuickly('killed');
      }
      const loaded = await load('killed', path, '--append');
      assert.equal(loaded.rows, rows);
      assert.equal(await countOf(), rows + 1);
      const ids = (await rowsOf('killed', '--columns', 'id')) as readonly { readonly id: number }[];
      assert.equal(new Set(ids.map(({ id }) => id)).size, rows);
    });

    test('waits for a service that is started again meanwhile', async () => {
      const path = file('restart.arrow', tableToIPC(largeTable(400_000), 'file'));
      await load('restarted', file('one.arrow', tableToIPC(largeTable(1), 'file')), '--append');
      const child = spawnLoad('restarted', path);
      const exited = once(child, 'exit');
      await eventually('a part is there', async () => (await countQuickly('restarted')) > 1 || child.exitCode !== null);
      service.kill('SIGTERM');
      await once(service, 'exit');
      await startService(port);
      assert.deepEqual(await exited, [0, null]);
      assert.equal((await rowsOf('restarted', '--columns', 'id')).length, 400_001);
    });

    test('says once that it waits for a service that does not answer', async (t) => {
      const nowhere = ['--url', 'http://127.0.0.1:65529', '--key', 'k'];
      const child = spawnLoad('waiting', file('waiting.csv', 'id\n1\n'), nowhere);
      t.after(() => child.kill('SIGKILL'));
      const [said] = (await once(child.stderr!, 'data')) as [Buffer];
      const expected =
        'no service answers at http://127.0.0.1:65529: the connection was refused; it is asked again for five minutes\n';
      assert.equal(said.toString(), expected);
    });
  });

  function largeTable(rows: number) {
    return tableFromArrays({
      id: Int32Array.from({ length: rows }, (_, at) => at),
      a: Float64Array.from({ length: rows }, (_, at) => at * 1.5),
      b: Float64Array.from({ length: rows }, (_, at) => at * 2.5),
      c: Float64Array.from({ length: rows }, (_, at) => at * 3.5),
    });
  }

  async function countQuickly(table: string): Promise<number> {
    const { stdout } = await run(['show', table]);
    return (JSON.parse(stdout.toString()) as { readonly rows: number }).rows;
  }

  function spawnLoad(table: string, path: string, at: readonly string[] = ['--data', data]): ChildProcess {
    const args = ['src/main.ts', 'load', table, path, '--append', ...at];
    const stdio = ['ignore', 'ignore', 'pipe'] as const;
    return spawn(process.execPath, args, { cwd: join(import.meta.dirname, '../..'), env, stdio: [...stdio] });
  }

  describe('export', () => {
    test('writes what load reads, in every format', async () => {
      await load('exported', file('e.csv', csv), '--append');
      for (const ending of ['csv', 'json', 'ndjson', 'csv.gz', 'arrow', 'arrows', 'parquet']) {
        const path = join(folder, `out.${ending}`);
        const { code, stdout, stderr } = await run(['export', 'exported', path]);
        assert.equal(code, 0, stderr);
        assert.match(stdout.toString(), /has exported as it is at version 1\n$/);
        const table = `back-${ending.replace('.', '-')}`;
        await load(table, path, '--append');
        assert.deepEqual(await rowsOf(table, '--order-by', 'id'), people, ending);
      }
      assert.equal(
        gunzipSync(readFileSync(join(folder, 'out.csv.gz'))).toString(),
        readFileSync(join(folder, 'out.csv'), 'utf8'),
      );
      assert.deepEqual(JSON.parse(readFileSync(join(folder, 'out.json'), 'utf8')), people);
    });

    test('takes a filter, columns and a version', async () => {
      await load('versions', file('v.csv', csv), '--append');
      await load('versions', file('v2.csv', 'id,name\n1,Lovelace\n'), '--on', 'id');
      const path = join(folder, 'v.ndjson');
      await run(['export', 'versions', path, '--where', 'id = 1', '--columns', 'name']);
      assert.equal(readFileSync(path, 'utf8'), '{"name":"Lovelace"}\n');
      await run(['export', 'versions', path, '--where', 'id = 1', '--columns', 'name', '--version', '1']);
      assert.equal(readFileSync(path, 'utf8'), '{"name":"Ada"}\n');
    });

    test('leaves no part of a file, nor touches the one that is there, where it fails', async () => {
      const path = file('kept.csv', 'kept');
      const { code, stderr } = await run(['export', 'no-such-table', path]);
      assert.deepEqual([code, readFileSync(path, 'utf8')], [1, 'kept'], stderr);
      assert.match(
        (await run(['export', 'exported', join(folder, 'a.xls')])).stderr,
        /the name of FILE ends in \.csv, /,
      );
      const refused = await run([
        'load',
        'exported',
        file('f.csv', csv),
        '--append',
        '--refused',
        join(folder, 'none/a'),
      ]);
      assert.match(refused.stderr, /none\/a cannot be written: there is no such file or folder\n$/);
      const nowhere = await run(['export', 'exported', join(folder, 'none/a.csv')]);
      assert.match(nowhere.stderr, /none\/a\.csv is not written: there is no such file or folder\n$/);
      assert.deepEqual(
        readdirSync(folder).filter((name) => name.startsWith('.')),
        [],
      );
      assert.ok(!existsSync(join(folder, 'a.xls')));
    });
  });
});
