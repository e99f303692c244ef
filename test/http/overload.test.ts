import assert from 'node:assert/strict';
import { afterEach, before, describe, test } from 'node:test';
import { afterSuite, lastFirst } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people, storedRows } from './rows.ts';
import { sampleBatch, sampleSchema, sampleStream } from './sample-stream.ts';
import { Upload, type UploadAnswer } from './upload-client.ts';

const MiB = 2 ** 20;
async function metricOf(service: TestService, name: string): Promise<number> {
  const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
  const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
  return Number(new RegExp(`^lancegate_${name} (\\d+)$`, 'm').exec(text)?.[1]);
}
function slowedDown({ status, headers, body }: UploadAnswer, says: RegExp): void {
  assert.deepEqual([status, body.code, headers['retry-after']], [503, 17, '1'], JSON.stringify(body));
  assert.match(String(body.error), says);
}
const largest = { 'content-length': String(16 * MiB) };

describe('a request that finds no room is refused before its body is read (P7, P10)', () => {
  const later = afterSuite();
  const open: Upload[] = [];
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, {
      BODY_MEMORY: '64MiB',
      MAX_MERGE_SIZE: '16MiB',
      maxConcurrentWrites: 8,
    });
    for (const table of ['a', 'b', 'c', 'd']) {
      succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'old')));
    }
  });
  afterEach(async () => {
    for (const upload of open.splice(0)) await upload.breakOff();
    await eventually('all memory of bodies given back', async () => (await metric('body_memory_bytes')) === 0);
    await eventually('no upload is left', async () => (await metric('uploads_in_flight')) === 0);
  });

  const metric = (name: string) => metricOf(service, name);
  const begin = async (subject: string, table: string, headers: Record<string, string> = {}): Promise<Upload> => {
    const authorization = `Bearer ${await service.mint('lancegate:write', subject)}`;
    const upload = new Upload(`${service.url}/v1/table/${table}/merge_insert?on=id`, { authorization, ...headers });
    open.push(upload);
    return upload;
  };
  /** An upload that has got its room, and sends nothing. */
  const hold = async (subject: string, table: string, headers: Record<string, string> = {}): Promise<Upload> => {
    const underWay = await metric('uploads_in_flight');
    const upload = await begin(subject, table, headers);
    await eventually('it was let in', async () => (await metric('uploads_in_flight')) === underWay + 1);
    return upload;
  };

  test('a body whose announced length does not fit now, whichever principal has the room', async () => {
    for (const [subject, table] of [['ann', 'a'], ['ben', 'b'], ['cyd', 'c']] as const) await hold(subject, table, largest); // biome-ignore format: pairs
    slowedDown(await (await begin('dan', 'd', largest)).answer, /too many bytes in bodies at the same time/);
    const small = people([2], 'new');
    const upload = await begin('dan', 'd', { 'content-length': String(small.length) });
    await upload.write(small);
    assert.equal((await upload.end()).status, 200, 'a small one fits');
  });

  test('a second large body of the same principal, while another principal is welcome', async () => {
    await hold('ann', 'a', largest);
    slowedDown(await (await begin('ann', 'b', largest)).answer, /of this principal/);
    await hold('ben', 'b', largest);
  });

  test('a second large body for the same table, while another table is open', async () => {
    await hold('ann', 'a', largest);
    slowedDown(await (await begin('ben', 'a', largest)).answer, /of this table/);
    await hold('ben', 'b', largest);
  });

  test('writes beyond the share of one principal and of one table, and beyond all', async () => {
    for (let i = 0; i < 4; i++) await hold('ann', i < 2 ? 'a' : 'b');
    slowedDown(await (await begin('ann', 'c')).answer, /too many writes of this principal/);
    for (let i = 0; i < 2; i++) await hold('ben', 'a');
    slowedDown(await (await begin('cyd', 'a')).answer, /too many writes of this table/);
    for (let i = 0; i < 2; i++) await hold('cyd', 'd');
    slowedDown(await (await begin('dan', 'd')).answer, /too many writes at the same time/);
    assert.equal((await service.post('/v1/table/a/describe')).status, 200, 'short requests still pass');
  });

  test('a body whose decoding takes more than is there', async () => {
    for (let i = 0; i < 3; i++) await hold('ann', 'a', { 'content-encoding': 'zstd' });
    slowedDown(await (await begin('ann', 'b', { 'content-encoding': 'zstd' })).answer, /too many bytes/);
  });

  test('a body of unknown length that outgrows the room is refused on the way, and nothing of it is written', async () => {
    succeeded(await service.post('/v1/table/grows/create', sampleStream(1)));
    await hold('ann', 'grows', largest);
    const upload = await begin('ben', 'grows');
    const sending = (async () => {
      await upload.write(sampleSchema);
      for (let i = 0; i < 24 && !upload.isOver; i++) await upload.write(sampleBatch(i * 512, 512, 1024));
    })();
    slowedDown(await upload.answer, /too many bytes in bodies of this table/);
    await sending;
    assert.equal((await storedRows(service, 'grows')).length, 1);
  });

  test('a body that would not fit alone is 413: waiting does not help', async () => {
    const answer = await (await begin('ann', 'a', { 'content-length': String(17 * MiB) })).answer;
    assert.deepEqual([answer.status, answer.body.code], [413, 13]);
  });
});

test('1,024 writes can be under way in a service as it comes, half of them of one principal (P7, P10)', {
  timeout: 60_000,
}, async (t) => {
  const service = await startCheckedService(lastFirst(t.after.bind(t)), {});
  succeeded(await service.post('/v1/table/a/create', people([1], 'old')));
  const headers = { authorization: `Bearer ${await service.mint('lancegate:write', 'ann')}` };
  const begin = () => new Upload(`${service.url}/v1/table/a/merge_insert?on=id`, headers);
  const open = Array.from({ length: 512 }, begin);
  await eventually('all were let in', async () => (await metricOf(service, 'uploads_in_flight')) === 512);
  slowedDown(await begin().answer, /too many writes of this principal/);
  for (const upload of open) await upload.breakOff();
});
