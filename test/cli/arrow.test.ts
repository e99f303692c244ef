import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { type Table, tableFromArrays, tableFromIPC, tableToIPC } from 'apache-arrow';
import { runInProcess } from './in-process.ts';

const sample = (name: string): string => `node_modules/vega-datasets/data/${name}`;

async function convert(input: string | Buffer, ...flags: readonly string[]): Promise<Table> {
  const { code, stdout, stderr } = await runInProcess(['arrow', '-', ...flags], { stdin: input });
  assert.equal(code, 0, stderr);
  return tableFromIPC(stdout);
}

async function refusal(input: string | Buffer, ...flags: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runInProcess(['arrow', '-', ...flags], { stdin: input });
  assert.notEqual(code, 0);
  assert.equal(stdout.length, 0);
  return stderr;
}

const types = (table: Table): Readonly<Record<string, string>> =>
  Object.fromEntries(table.schema.fields.map((field) => [field.name, String(field.type)]));
const rows = (table: Table): readonly unknown[] =>
  table
    .toArray()
    .map((row) => JSON.parse(JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))));

test('JSON rows keep every value; whole numbers are int64, other numbers float64, text plain utf8', async () => {
  const source = [
    { id: 1, ratio: 1, name: 'a', ok: true, tags: ['x', null], at: { lat: 1.5, place: null } },
    { id: 2, ratio: 0.5, name: null, tags: [], at: null },
    { id: null, ratio: 2, name: 'ü\n', ok: false, tags: null, at: { lat: null, place: 'here' } },
  ];
  const table = await convert(JSON.stringify(source));
  assert.deepEqual(types(table), {
    id: 'Int64',
    ratio: 'Float64',
    name: 'Utf8',
    ok: 'Bool',
    tags: 'List<Utf8>',
    at: 'Struct<{lat:Float64, place:Utf8}>',
  });
  assert.deepEqual(rows(table), [{ ...source[0], id: '1n' }, { ...source[1], id: '2n', ok: null }, source[2]]);
  assert.ok(table.schema.fields.every((field) => field.nullable));
});

test('newline-delimited JSON reads like an array, blank lines aside', async () => {
  const table = await convert('{"a":1}\n\n{"b":"x"}\r\n');
  assert.deepEqual(rows(table), [
    { a: '1n', b: null },
    { a: null, b: 'x' },
  ]);
});

test('an integer beyond 2^53 keeps all its digits', async () => {
  const table = await convert('{"id":9007199254740993}\n{"id":-9223372036854775808}\n{"id":1}');
  assert.deepEqual([...table.getChild('id')!], [9007199254740993n, -9223372036854775808n, 1n]);
});

test('a column of mixed types is text, and what is no text in it is JSON', async () => {
  const table = await convert('[{"a":"x"},{"a":5},{"a":[1]}]');
  assert.deepEqual(rows(table), [{ a: 'x' }, { a: '5' }, { a: '[1]' }]);
});

test('--types makes narrow numbers and vectors, and refuses what does not fit', async () => {
  const table = await convert('[{"v":[1,2.5],"n":7,"f":1}]', '--types', 'v=float32[2],n=int32', '--types=f=float64');
  assert.deepEqual(types(table), { v: 'FixedSizeList[2]<Float32>', n: 'Int32', f: 'Float64' });
  assert.deepEqual(rows(table), [{ v: [1, 2.5], n: 7, f: 1 }]);
  assert.match(
    await refusal('[{"v":[1,2]},{"v":[1]}]', '--types=v=float32[2]'),
    /row 2, column v: has 1 values where a vector of 2 belongs/,
  );
  assert.match(await refusal('[{"n":3000000000}]', '--types=n=int32'), /row 1, column n: this number is no int32/);
  for (const type of ['float32', 'float32[1]']) {
    const value = type === 'float32' ? '1e39' : '[1e39]';
    assert.match(
      await refusal(`[{"n":${value}}]`, `--types=n=${type}`),
      /row 1, column n.*: this number is no float32/,
    );
  }
  assert.match(await refusal('[{"n":1}]', '--types=n=int9'), /--types: "n=int9" is not accepted/);
});

test('--types of a column that is not there is refused with the columns that are', async () => {
  const source = '[{"mixed":1,"good":"x"},{"mixed":"y","good":"z"}]';
  assert.match(await refusal(source, '--types', 'mixt=utf8'), /no column "mixt"; the columns are mixed, good/);
});

test('input of no rows is refused, since it has no columns', async () => {
  assert.match(await refusal('[]'), /no rows to see columns in/);
  assert.match(await refusal(''), /no rows to see columns in/);
});

test('CSV has its columns in the first line', async () => {
  const table = await convert('id,zip,v\n1,007,"[1,2]"\n2,,"[3,4]"\n');
  assert.deepEqual(types(table), { id: 'Int64', zip: 'Utf8', v: 'FixedSizeList[2]<Float32>' });
  assert.deepEqual(rows(table).at(-1), { id: '2n', zip: null, v: [3, 4] });
});

test('what is not rows is refused with its position', async () => {
  assert.match(await refusal('[1]'), /row 1: an object is expected here/);
  assert.match(await refusal('{"a":1}\n{"a"'), /line 2 is not JSON/);
  assert.match(await refusal('id,zip\n1\n'), /line 2: it has 1 cell, and there are 2 columns/);
  assert.match(await refusal(Buffer.from('PAR1')), /Parquet has its footer at the end: a file is needed, not a pipe/);
  assert.match(await refusal(Buffer.from('ARROW1\0\0nonsense')), /the file has no footer at its end: it is not whole/);
});

test('an Arrow file becomes a stream of the same batches and types', async () => {
  const { stdout } = await runInProcess(['arrow', sample('flights-200k.arrow')]);
  const before = tableFromIPC(readFileSync(sample('flights-200k.arrow')));
  const after = tableFromIPC(stdout);
  assert.equal(after.numRows, 200_000);
  assert.deepEqual(types(after), types(before));
  assert.deepEqual(after.getChild('delay')!.toArray(), before.getChild('delay')!.toArray());
  assert.equal(stdout.readInt32LE(0), -1);
});

test('compressed Arrow and Parquet become streams that any reader takes', async () => {
  for (const [file, count] of Object.entries({ 'lz4-100-rows.feather': 100, 'lists-across-pages.parquet': 130_000 })) {
    const { stdout, stderr } = await runInProcess(['arrow', `test/fixtures/pyarrow/${file}`]);
    assert.equal(tableFromIPC(stdout).numRows, count, stderr);
  }
});

test('rows beyond one batch are all there', async () => {
  const count = 40_000;
  const table = await convert(Array.from({ length: count }, (_, id) => `{"id":${id}}`).join('\n'));
  assert.deepEqual(table.getChild('id')!.get(count - 1), BigInt(count - 1));
});

test('an Arrow file with a dictionary keeps it, and takes no --types', async () => {
  const source = tableFromArrays({ city: ['x', 'y', 'x'], n: Int32Array.of(1, 2, 3) });
  const table = await convert(Buffer.from(tableToIPC(source, 'file')));
  assert.deepEqual(types(table), { city: 'Dictionary<Int32, Utf8>', n: 'Int32' });
  assert.deepEqual(rows(table).at(-1), { city: 'x', n: 3 });
  assert.match(await refusal(Buffer.from(tableToIPC(source)), '--types', 'n=int64'), /--types applies to text/);
});

test('real files: the rows of each are there', async () => {
  const expected = { 'us-state-capitals.json': 50, 'countries.json': 620 };
  for (const [name, count] of Object.entries(expected)) {
    const { stdout, stderr } = await runInProcess(['arrow', sample(name)]);
    assert.equal(tableFromIPC(stdout).numRows, count, stderr);
  }
  const { stdout } = await runInProcess(['arrow', sample('movies.json')]);
  assert.equal(String(tableFromIPC(stdout).schema.fields[0]?.type), 'Utf8');
});

test('a file that is not there is named', async () => {
  const { code, stderr } = await runInProcess(['arrow', 'nowhere.json']);
  assert.equal(code, 1);
  assert.match(stderr, /^lancegate: nowhere\.json cannot be read: there is no such file or folder\n$/);
});
