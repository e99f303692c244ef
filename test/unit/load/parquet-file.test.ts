/** Parquet is decoded where a hostile file ends nothing but its own thread. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tableFromArrays, tableFromIPC, tableToIPC } from 'apache-arrow';
import { Table, WriterPropertiesBuilder, writeParquet } from 'parquet-wasm/node';
import { LancegateError } from '#src/kernel/errors.ts';
import { openInput } from '#src/load/input-file.ts';
import { messagesOfFile } from '#src/load/messages-of-file.ts';
import { type RowMessage, streamOf } from '#src/load/row-messages.ts';
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

test(`${mutations} files that were changed are read or refused, and nothing dies`, async (t) => {
  const path = join(
    temporaryFolder((clean) => t.after(clean)),
    'a.parquet',
  );
  const random = new Random(Number(process.env.LANCEGATE_TEST_SEED ?? 1));
  const whole = parquet();
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
  assert.ok(refusals.size > 0);
});
