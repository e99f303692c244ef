/** `load --schema extend`: files that bring columns to a table. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { Table, writeParquet } from 'parquet-wasm/node';
import { systemClock } from '#src/kernel/clock.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { runInProcess } from './in-process.ts';

const later = afterSuite();
const data = temporaryFolder(later);
const folder = temporaryFolder(later);

before(async () => {
  const service = spawn(process.execPath, serveArguments(data, 'error'), { stdio: ['ignore', 'pipe', 'inherit'] });
  later(() => void service.kill('SIGKILL'));
  await listeningUrl(service);
});

const file = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

const run = (args: readonly string[]) => runInProcess([...args, '--data', data], { clock: systemClock });

interface Loaded {
  readonly inserted: number;
  readonly updated: number;
  readonly partsThereBefore: number;
}

async function load(...args: readonly string[]): Promise<Loaded & { readonly said: string }> {
  const { code, stdout, stderr } = await run(['load', ...args]);
  assert.equal(code, 0, stderr);
  return { ...(JSON.parse(stdout.toString()) as Loaded), said: stderr };
}

async function rowsOf(table: string): Promise<readonly Record<string, unknown>[]> {
  const { code, stdout, stderr } = await run(['query', table, '--order-by', 'id']);
  assert.equal(code, 0, stderr);
  const lines = stdout.toString().trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

test('extends a table by the columns of a file, and takes the same file no second time (P6)', async () => {
  const columns = ['id', 'n', 'name', 'at', 'size'] as const;
  const text = 'size,at,id,n,name,nothing\n1.5,2026-03-02,2,0.5,"b",\n,,3,9,c,\n';
  const nested = '"s":{"b":[1],"a":{"c":null,"d":"x"}},"l":[{"y":1},{"x":null}],"e":[],"v":[0.5,1],"any":[1,"x"]';
  const lines = `{"size":1.5,"at":"2026-03-02","id":2,"n":0.5,"name":"b",${nested}}\n{"id":3,"n":9,"name":"c"}\n`;
  const parquet = Table.fromIPCStream(
    tableToIPC(
      tableFromArrays({
        size: [1.5, null],
        at: ['2026-03-02', null],
        id: BigInt64Array.of(2n, 3n),
        n: Float64Array.of(0.5, 9),
        name: ['b', 'c'],
      }),
      'stream',
    ),
  );
  for (const [table, path] of [
    ['wider-text', file('wider.csv', text)],
    ['wider-lines', file('wider.ndjson', lines)],
    ['wider-parquet', file('wider.parquet', writeParquet(parquet))],
  ] as const) {
    const first = tableFromArrays({ id: Int32Array.of(1), n: Int16Array.of(1), name: ['a'] });
    await load(table, file('first.arrow', tableToIPC(first, 'file')), '--append');
    const strict = await run(['load', table, path, '--append']);
    assert.match(strict.stderr, /column size does not exist in the table|column n: this number is no int16/);
    const extending = [table, path, '--append', '--schema', 'extend'];
    const loaded = await load(...extending);
    assert.match(loaded.said, /^the table got column size of float64$/m);
    assert.match(loaded.said, /^column n of the table became (float32|float64), from int16$/m);
    const { partsThereBefore } = await load(...extending);
    assert.deepEqual([loaded.inserted, partsThereBefore], [2, 1], table);
    const rows = await rowsOf(table);
    assert.deepEqual(
      rows.map((row) => columns.map((name) => row[name])),
      [
        [1, 1, 'a', null, null],
        [2, 0.5, 'b', '2026-03-02', 1.5],
        [3, 9, 'c', null, null],
      ],
      table,
    );
  }
});

test('extends a table by each of several files, the later ones of which find what the first brought', async () => {
  await load('grown', file('g0.csv', 'id,n\n1,1\n'), '--on', 'id');
  const files = [
    file('g1.ndjson', '{"id":1,"price":2.5}\n'),
    file('g2.ndjson', '{"id":2,"price":3}\n{"id":3,"zip":"01"}\n'),
  ];
  const loaded = await load('grown', ...files, '--on', 'id', '--schema', 'extend', '--types', 'late=utf8');
  assert.deepEqual([loaded.inserted, loaded.updated], [2, 1]);
  assert.deepEqual(await rowsOf('grown'), [
    { id: 1, n: 1, price: 2.5, zip: null, late: null },
    { id: 2, n: null, price: 3, zip: null, late: null },
    { id: 3, n: null, price: null, zip: '01', late: null },
  ]);
});

test('does not extend a table where a second run could add the rows once more, or names are missing', async () => {
  const path = file('x1.csv', 'id\n1\n');
  for (const [args, expected] of [
    [[path, path, '--append'], /--append with --schema extend takes one file/],
    [[path, '--append', '--format', 'csv-without-header'], /needs files with names/],
    [[path, '--replace'], /--schema needs --on or --append/],
  ] as const) {
    const { code, stderr } = await run(['load', 'unmade', ...args, '--schema', 'extend']);
    assert.equal(code, 2);
    assert.match(stderr, expected);
  }
});
