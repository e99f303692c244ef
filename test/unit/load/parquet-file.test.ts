/** Parquet is read by its pages, and a hostile file ends nothing but its own thread. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { tableFromArrays, tableFromIPC, tableToIPC } from 'apache-arrow';
import { readParquet, Table, WriterPropertiesBuilder, wasmMemory, writeParquet } from 'parquet-wasm/node';
import { LancegateError } from '#src/kernel/errors.ts';
import { openInput } from '#src/load/input-file.ts';
import { messagesOfFile } from '#src/load/messages-of-file.ts';
import { messagesOfParquet } from '#src/load/parquet-file.ts';
import { messagesIn, type RowMessage, streamOf } from '#src/load/row-messages.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

const rows = 3_000;
const mutations = Number(process.env.LANCEGATE_TEST_PARQUET_MUTATIONS ?? 8);

function parquet(): Buffer {
  const table = tableFromArrays({
    id: Int32Array.from({ length: rows }, (_, at) => at),
    value: Float64Array.from({ length: rows }, (_, at) => at / 3),
    name: Array.from({ length: rows }, (_, at) => `name ${at % 100}`),
  });
  const properties = new WriterPropertiesBuilder().setMaxRowGroupSize(1_000).build();
  return Buffer.from(writeParquet(Table.fromIPCStream(tableToIPC(table, 'stream')), properties));
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

async function messagesOf(path: string) {
  await using input = await openInput({ name: 'a.parquet', path, stdin: nothing(), format: undefined });
  const keep = (message: RowMessage): RowMessage => ({ ...message, bytes: Buffer.from(message.bytes) });
  return await Array.fromAsync(messagesOfFile(input, {}), keep);
}

test('all row groups are there, and how much of the file is read', async (t) => {
  const path = join(
    temporaryFolder((clean) => t.after(clean)),
    'a.parquet',
  );
  writeFileSync(path, parquet());
  const messages = await messagesOf(path);
  const read = tableFromIPC(streamOf(messages.map(({ bytes }) => bytes)));
  assert.equal(read.numRows, rows);
  assert.deepEqual(
    [...read].filter((_, at) => at % 999 === 0).map((row) => Number(row!.id)),
    [0, 999, 1998, 2997],
  );
  const shares = messages.map(({ readShare }) => readShare!);
  assert.deepEqual([shares[0], shares.at(-1)], [0, 1]);
  assert.deepEqual(shares, shares.toSorted());
});

/** 130,000 rows in one row group, by pyarrow 18.1: its lists go on from one page to the next. */
const lists = join(import.meta.dirname, '../../fixtures/pyarrow/lists-across-pages.parquet');

test('columns that are read by their pages give what the decoder makes of all at once, byte for byte', async () => {
  const table = readParquet(readFileSync(lists), { batchSize: 16_384 });
  const expected = table
    .recordBatches()
    .flatMap((batch, i) => messagesIn(batch.intoIPCStream()).slice(i === 0 ? 0 : 1));
  const messages = await messagesOf(lists);
  assert.deepEqual(
    messages.map(({ bytes }) => Buffer.from(bytes).toString('base64')),
    expected.map(({ bytes }) => Buffer.from(bytes).toString('base64')),
  );
  const read = tableFromIPC(streamOf(messages.map(({ bytes }) => bytes)));
  const [ids, items] = [read.getChild('id')!, read.getChild('items')!];
  assert.equal(read.numRows, 130_000);
  for (let row = 0; row < read.numRows; row += 1) {
    const list = items.get(row) as Iterable<bigint> | null;
    assert.equal(ids.get(row), BigInt(row));
    const value = BigInt(Math.floor(row / 1_300));
    assert.deepEqual(list && [...list], row % 13 === 0 ? null : Array.from({ length: row % 11 }, () => value));
  }
});

test('the decoder takes little memory for a row group of 128 MB', async (t) => {
  const path = join(
    temporaryFolder((clean) => t.after(clean)),
    'large.parquet',
  );
  // In a thread of its own, since its memory never shrinks.
  await once(new Worker(writeLargeGroup, { eval: true, workerData: path }), 'exit');
  let rows = 0;
  for await (const message of messagesOfParquet(path)) rows += message.rows;
  assert.equal(rows, 4_000_000);
  const { buffer } = wasmMemory() as unknown as { readonly buffer: ArrayBuffer };
  assert.ok(buffer.byteLength < 64 << 20, `it has ${buffer.byteLength} bytes`);
});

const writeLargeGroup = `
  const { writeFileSync } = require('node:fs');
  const { workerData } = require('node:worker_threads');
  const { tableFromArrays, tableToIPC } = require('apache-arrow');
  const { Compression, Table, WriterPropertiesBuilder, writeParquet } = require('parquet-wasm/node');
  const column = (by) => Float64Array.from({ length: 4_000_000 }, (_, row) => (row % 1_000) * by);
  const table = tableFromArrays({ a: column(1), b: column(2), c: column(3), d: column(4) });
  const properties = new WriterPropertiesBuilder()
    .setDictionaryEnabled(false)
    .setCompression(Compression.ZSTD)
    .setMaxRowGroupSize(4_000_000)
    .build();
  writeFileSync(workerData, writeParquet(Table.fromIPCStream(tableToIPC(table, 'stream')), properties));
`;

for (const [what, whole] of [
  ['small', parquet()],
  ['with lists across pages', readFileSync(lists)],
] as const)
  test(`${mutations} files ${what} that were changed are read or refused with their place, and nothing dies`, async (t) => {
    const path = join(
      temporaryFolder((clean) => t.after(clean)),
      'a.parquet',
    );
    const refusals = await refusalsOfChanged(whole, path);
    assert.ok(refusals.size > 0);
    for (const refusal of refusals)
      assert.match(refusal, /^a\.parquet: (its footer|row group \d+ of \d+) cannot be read: ./);
  });

async function refusalsOfChanged(whole: Buffer, path: string): Promise<ReadonlySet<string>> {
  const random = new Random(Number(process.env.LANCEGATE_TEST_SEED ?? 1));
  const refusals = new Set<string>();
  for (let mutation = 0; mutation < mutations; mutation += 1) {
    const bytes = Buffer.from(whole);
    const changes = 1 + random.int(8);
    for (let change = 0; change < changes; change += 1) {
      const from = random.chance(50) ? Math.max(0, bytes.length - 2_000) : 0;
      bytes[from + random.int(bytes.length - from)] = random.int(256);
    }
    writeFileSync(path, random.chance(15) ? bytes.subarray(0, random.int(bytes.length)) : bytes);
    try {
      await messagesOf(path);
    } catch (error) {
      assert.ok(error instanceof LancegateError && error.kind === 'InvalidInput', String(error));
      refusals.add(error.message);
    }
  }
  return refusals;
}
