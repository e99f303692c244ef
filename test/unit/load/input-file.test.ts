/** Files are known by how they begin, and read in pieces of one size. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { formatOf, openInput } from '#src/load/input-file.ts';
import { Progress } from '#src/load/progress.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

async function* nothing(): AsyncGenerator<Uint8Array> {}

test('a format is what the file begins with, and else what its name ends with', () => {
  for (const [head, name, format] of [
    ['PAR1…', 'a.csv', 'parquet'],
    ['ARROW1\0\0', 'a', 'arrow'],
    ['\u00ff\u00ff\u00ff\u00ff', 'a', 'arrow'],
    ['[{"a":1}]', 'a.ndjson', 'json'],
    ['{"a":1}\n{"a":2}', 'a.json', 'ndjson'],
    ['{"a":1}', 'a', 'ndjson'],
    ['a,b\n1,2', 'a', 'csv'],
    ['[a],b\n1,2', 'a.csv', 'csv'],
    ['{a},b\n1,2', 'a.CSV.gz', 'csv'],
    ['{a}\tb\n1\t2', 'a.tsv.zst', 'csv'],
    ['x', 'a.json', 'ndjson'],
  ] as const)
    assert.equal(formatOf(Buffer.from(head, 'latin1'), name), format, head);
});

test('pieces are as long as each other, also of a packed file', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const text = Buffer.from('x'.repeat(200_000));
  for (const [name, bytes] of [
    ['plain', text],
    ['packed.gz', gzipSync(text)],
    ['packed.zst', zstdCompressSync(text)],
  ] as const) {
    writeFileSync(join(folder, name), bytes);
    await using input = await openInput({ name, path: join(folder, name), stdin: nothing(), format: undefined });
    const pieces = await Array.fromAsync(input.pieces());
    assert.deepEqual(
      pieces.map(({ length }) => length),
      [65_536, 65_536, 65_536, 3_392],
    );
    assert.ok(Buffer.concat(pieces).equals(text));
    assert.equal(input.bytesRead, bytes.length);
  }
});

test('a gzipped file that breaks off is refused with the place', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const path = join(folder, 'a.csv.gz');
  const random = new Random(1);
  const noise = Buffer.from(Array.from({ length: 50_000 }, () => random.int(256)));
  writeFileSync(path, gzipSync(noise).subarray(0, 20_000));
  await assert.rejects(async () => {
    await using input = await openInput({ name: 'a.csv.gz', path, stdin: nothing(), format: 'csv' });
    await Array.fromAsync(input.pieces());
  }, /cannot be unpacked by gzip after 20000 bytes/);
});

test('progress is a bar that stays in its line on a terminal, and few lines elsewhere', () => {
  let nowMs = 0;
  const clock = { nowMs: () => nowMs, schedule: () => () => undefined };
  const shown: string[] = [];
  const write = (text: string): void => void shown.push(text);
  const bar = new Progress({ isTTY: true, columns: 60, write }, clock, 1_000_000);
  const lines = new Progress({ write }, clock, 1_000_000);
  nowMs = 1_000;
  bar.show({ bytes: 250_000, rows: 5_000 });
  lines.show({ bytes: 250_000, rows: 5_000 });
  assert.deepEqual(shown, ['\r\u001b[K[######..................] 5,000 rows, 250.0 kB of 1.0 MB, ']);
  nowMs = 10_000;
  lines.show({ bytes: 500_000, rows: 10_000 });
  assert.equal(shown.at(-1), '10,000 rows, 500.0 kB of 1.0 MB, 50.0 kB/s, 10s left\n');
});
