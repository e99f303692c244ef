import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { endOfStream } from '#test/fixtures/ipc-writer.ts';
import { arrowStream, type HeaderFields, startTestService, type TestService } from '#test/fixtures/service.ts';
import { eventually } from '#test/http/eventually.ts';
import { sampleBatch, sampleSchema, sampleStream } from '#test/http/sample-stream.ts';
import { receivedBytes } from '#test/http/stalled-reads.ts';
import { entriesUnder } from '#test/http/stored.ts';
import { Upload } from '#test/http/upload-client.ts';

const KiB = 2 ** 10;
const rows = 3;
const batches = Array.from({ length: rows }, (_, i) => sampleBatch(i, 1, 4 * KiB));
const stream = Buffer.concat([sampleSchema, ...batches, endOfStream]);
const firstBatch = sampleSchema.length;
const secondBatch = firstBatch + batches[0]!.length;

const cuts: readonly (readonly [where: string, bytes: number])[] = [
  ['before the first byte', 0],
  ['in the prefix of the schema', 5],
  ['in the schema', 60],
  ['after the schema', firstBatch],
  ['in the metadata of a batch', firstBatch + 40],
  ['in the body of a batch', secondBatch - 2 * KiB],
  ['between two batches', secondBatch],
  ['before the end marker', stream.length - endOfStream.length],
  ['in the end marker', stream.length - 3],
  ['after the end marker, which is not the end of the request', stream.length],
];

interface Leaving {
  readonly how: string;
  readonly headers: HeaderFields;
  readonly leave: (upload: Upload) => Promise<void>;
}

const leavings: readonly Leaving[] = [
  { how: 'the connection breaks', headers: {}, leave: (upload) => upload.breakOff() },
  { how: 'the client hangs up without the last chunk', headers: {}, leave: (upload) => upload.hangUp() },
  {
    how: 'the client hangs up before its Content-Length',
    headers: { 'content-length': String(stream.length + 1) },
    leave: (upload) => upload.hangUp(),
  },
];

describe('nothing of an upload that is cut off stays behind (P1)', () => {
  const later = afterSuite();
  let service: TestService;
  let authorization: string;
  before(async () => {
    // So small that every batch is written as soon as it has come.
    service = await startTestService(later, { chunkBytes: 2 ** 10, DROP_RETENTION: '0s' });
    authorization = `Bearer ${await service.mint('lancegate:admin')}`;
  });

  const mergesOver = (): number =>
    service.log.filter((line) => line.includes('"message":"request"') && line.includes('/merge_insert"')).length;

  /** Sends the stream up to each cut, at the same time; once the service has read all of it, all clients leave. */
  async function sendAndLeave(pathOf: (cut: number) => string, { headers, leave }: Leaving): Promise<void> {
    const all = { authorization, 'content-type': arrowStream, ...headers };
    const before = await receivedBytes(service);
    const uploads = cuts.map((_, i) => new Upload(`${service.url}/v1/table/${pathOf(i)}`, all));
    await Promise.all(cuts.map(([, bytes], i) => uploads[i]!.write(stream.subarray(0, bytes))));
    const sent = cuts.reduce((sum, [, bytes]) => sum + bytes, 0);
    await eventually('all bytes are read', async () => (await receivedBytes(service)) === before + sent);
    await Promise.all(uploads.map(leave));
  }

  const created = (table: string) => service.post(`/v1/table/${table}/create`, stream);

  for (const [number, leaving] of leavings.entries()) {
    test(`${leaving.how} in a create`, async () => {
      const others = entriesUnder(service.tablesFolder);
      const tables = cuts.map((_, i) => `cut_${number}_${i}`);
      await sendAndLeave((cut) => `${tables[cut]}/create`, leaving);
      for (const [i, [where]] of cuts.entries()) {
        await eventually(`the name is free, cut ${where}`, async () => {
          const { status } = await created(tables[i]!);
          if (status === 200) return true;
          assert.equal(status, 409, where);
          return false;
        });
        assert.equal((await service.get(`/v1/table/${tables[i]}/count_rows`)).body, rows, where);
        assert.equal((await service.post(`/v1/table/${tables[i]}/drop`, {})).status, 200, where);
      }
      assert.deepEqual(entriesUnder(service.tablesFolder), others);
    });

    test(`${leaving.how} in a merge`, async () => {
      const table = `target_${number}`;
      assert.equal((await service.post(`/v1/table/${table}/create`, sampleStream(1))).status, 200);
      const { body: before } = await service.post(`/v1/table/${table}/describe`, {});
      const files = entriesUnder(service.tablesFolder);
      const over = mergesOver();
      await sendAndLeave(() => `${table}/merge_insert?on=id`, leaving);
      await eventually('all are over', () => mergesOver() === over + cuts.length);
      const merged = await service.post(`/v1/table/${table}/merge_insert?on=id`, sampleStream(0));
      assert.equal(merged.body.version, before.version, 'nothing was written before this merge');
      assert.equal((await service.get(`/v1/table/${table}/count_rows`)).body, 1);
      assert.deepEqual(entriesUnder(service.tablesFolder), files);
    });
  }

  test('the memory and the slots of all of them are given back (P7)', async () => {
    const held = async (): Promise<Record<string, string>> => {
      const metrics = await (await fetch(`${service.url}/metrics`, { headers: { authorization } })).text();
      const gauges = metrics.matchAll(/^lancegate_(body_memory_bytes|uploads_in_flight) (.+)$/gm);
      return Object.fromEntries([...gauges].map(([, name, value]) => [name!, value!]));
    };
    const nothing = { body_memory_bytes: '0', uploads_in_flight: '0' };
    await eventually('nothing is held', async () => isDeepStrictEqual(await held(), nothing));
  });
});

describe('a merge holds no more than the configured size (P7)', () => {
  const later = afterSuite();
  const maxBytes = 256 * KiB;
  let service: TestService;
  let authorization: string;
  before(async () => {
    service = await startTestService(later, { MAX_MERGE_SIZE: `${maxBytes}B` });
    authorization = `Bearer ${await service.mint('lancegate:admin')}`;
    assert.equal((await service.post('/v1/table/t/create', sampleStream(2))).status, 200);
  });

  const merge = (headers: HeaderFields): Upload =>
    new Upload(`${service.url}/v1/table/t/merge_insert?on=id`, { authorization, ...headers });

  async function assertUnchanged(): Promise<void> {
    assert.equal((await service.post('/v1/table/t/describe', {})).body.version, 1);
    assert.equal((await service.get('/v1/table/t/count_rows')).body, 2);
  }

  test('a Content-Length beyond it is 413 before a byte of the body is sent', async () => {
    const { status, body } = await merge({ 'content-length': String(maxBytes + 1) }).answer;
    assert.equal(status, 413);
    assert.match(String(body.error), new RegExp(`${maxBytes} bytes`));
    await assertUnchanged();
  });

  test('a chunked body is 413 as soon as it is beyond it', async () => {
    const upload = merge({});
    await upload.write(sampleSchema);
    const batch = sampleBatch(5, 1, 16 * KiB);
    while (!upload.isOver) {
      await upload.write(batch);
      assert.ok(upload.sentBytes < 8 * 2 ** 20, `no answer after ${upload.sentBytes} bytes`);
    }
    const { status, body } = await upload.answer;
    assert.equal(status, 413);
    assert.match(String(body.error), /^message 1\d \(record batch\): the stream up to here is larger than/);
    await assertUnchanged();
  });

  test('a body that is exactly as large is merged, one byte more is not', async () => {
    const overhead = sampleStream(1, 8).length - 8;
    assert.equal(sampleStream(1, maxBytes - overhead).length, maxBytes);
    const tooLarge = await service.post('/v1/table/t/merge_insert?on=id', sampleStream(1, maxBytes - overhead + 8));
    assert.equal(tooLarge.status, 413);
    await assertUnchanged();
    const justRight = await service.post('/v1/table/t/merge_insert?on=id', sampleStream(1, maxBytes - overhead));
    assert.deepEqual([justRight.status, justRight.body.num_updated_rows], [200, 1]);
  });
});
