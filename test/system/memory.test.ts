/** Black box: what the process weighs while a body passes through it that is larger than that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Float64, makeData, Table, tableToIPC, Vector } from 'apache-arrow';
import { serviceOfTest } from '#test/fixtures/service-process.ts';

const MiB = 2 ** 20;
const rowsPerBatch = 512 * 1024;
const batches = 75;
const sentBytes = batches * rowsPerBatch * 8;
const allowedBytes = 400 * MiB;

/** One batch over and over, between a schema and an end marker. */
async function* bodyOfBatches(): AsyncGenerator<Uint8Array> {
  const data = Float64Array.from({ length: rowsPerBatch }, (_, i) => Math.sin(i));
  const column = new Vector([makeData({ type: new Float64(), length: rowsPerBatch, data })]);
  const stream = tableToIPC(new Table({ value: column }), 'stream');
  const schemaBytes = 8 + new DataView(stream.buffer, stream.byteOffset).getInt32(4, true);
  yield stream.subarray(0, schemaBytes);
  for (let sent = 0; sent < batches; sent++) yield stream.subarray(schemaBytes, stream.length - 8);
  yield stream.subarray(stream.length - 8);
}

test('a create of 300 MiB stays within 400 MiB above an idle service (P7)', async (t) => {
  const service = await serviceOfTest((clean) => t.after(clean));
  const idleBytes = service.memory().residentBytes;
  const response = await fetch(`${service.url}/v1/table/large/create`, {
    method: 'POST',
    headers: { authorization: service.authorization },
    body: ReadableStream.from(bodyOfBatches()),
    duplex: 'half',
  } as RequestInit);
  assert.equal(response.status, 200, await response.text());
  assert.equal((await service.post('/v1/table/large/count_rows')).body, batches * rowsPerBatch);
  const grownBytes = service.memory().peakBytes - idleBytes;
  t.diagnostic(`${sentBytes / MiB} MiB sent, ${Math.round(grownBytes / MiB)} MiB above idle at the most`);
  assert.ok(grownBytes < allowedBytes, `${grownBytes} bytes above idle`);
});
