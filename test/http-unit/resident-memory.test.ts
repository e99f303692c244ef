/** The process as a whole has no memory left, whatever its budgets say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '#src/kernel/clock.ts';
import { ResidentLimit } from '#src/memory/resident-limit.ts';
import { arrowType, ask, upload } from './client.ts';
import { RawClient } from './raw-client.ts';
import { startTestService } from './service.ts';

class FullProcess {
  residentBytes = 2_000;
  #nowMs = 0;
  readonly limit = new ResidentLimit({
    limitBytes: 1_000,
    memory: {
      residentBytes: () => this.residentBytes,
      collect: () => undefined,
    },
    clock: { nowMs: () => (this.#nowMs += 1_000) } as Clock,
    onChange: () => undefined,
  });
}

test('while memory is nearly full writes are admitted one at a time, and the others refused before their body (P7)', async () => {
  const process = new FullProcess();
  await using service = await startTestService({ resident: process.limit });
  using first = await RawClient.connect(service);
  await first.head('POST /v1/table/users/merge_insert?on=id', [
    `content-type: ${arrowType}`,
    'transfer-encoding: chunked',
  ]);
  await first.chunk(Buffer.from([0xff]));
  while (service.receivedBytes() === 0) await new Promise(setImmediate);

  for (const path of ['/v1/table/users/merge_insert?on=id', '/v1/table/others/create']) {
    const refused = await upload(service, path);
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get('retry-after'), '1');
    assert.match(refused.text, /memory of the service is nearly full/);
  }
  assert.equal((await ask(service, '/v1/table/users/describe')).status, 200, 'what has no rows needs no memory');
  assert.ok(service.asked.every(({ operation }) => operation !== 'createTable'));

  process.residentBytes = 500;
  assert.equal((await upload(service, '/v1/table/users/merge_insert?on=id')).status, 200);
  process.residentBytes = 2_000;
  first.leave();
  const isAlone = async () => (await upload(service, '/v1/table/users/merge_insert?on=id')).status === 200;
  while (!(await isAlone())) await new Promise(setImmediate);
  assert.equal(await isAlone(), true, 'memory that never comes down must not end the service');
});
