/** Against a process of its own: whatever comes, it lives, and leaves nothing behind (P1, P7). */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type ServiceProcess, serviceOfTest } from '#test/fixtures/service-process.ts';
import { goodEnds, goodRows, goodStream, hostileBodies } from '#test/http/hostile-bodies.ts';
import { entriesUnder } from '#test/http/stored.ts';

const MiB = 2 ** 20;

describe('a hostile body is refused in words, and the service lives', () => {
  const later = afterSuite();
  let service: ServiceProcess;
  let idleBytes: number;
  before(async () => {
    service = await serviceOfTest(later, '--body-memory=256MiB', '--drop-retention=0s');
    assert.equal((await service.post('/v1/table/target/create', goodStream)).status, 200);
    await service.post('/v1/table/promised/declare');
    idleBytes = service.memory().residentBytes;
  });

  async function assertRefused(path: string, bytes: Uint8Array, status: number, error: RegExp): Promise<void> {
    const answer = await service.post(`/v1/table/${path}`, bytes).catch((cause: unknown) => {
      assert.fail(`${path}: ${String(cause)}; ${service.death ?? 'the service lives'}`);
    });
    const { error: text } = answer.body as { error: string };
    assert.equal(answer.status, status, `${path}: ${JSON.stringify(answer.body)}`);
    assert.match(text, error, path);
  }

  async function assertNothingLeft(): Promise<void> {
    const folders = new Set(entriesUnder(service.tablesFolder).map((path) => path.split('/')[0]));
    assert.deepEqual([...folders], ['target.lance']);
    assert.equal((await service.post('/v1/table/new/exists')).status, 404);
    assert.equal((await service.post('/v1/table/target/describe')).status, 200);
    assert.deepEqual((await service.post('/v1/table/target/count_rows')).body, goodRows);
    assert.equal(await service.metric('lancegate_body_memory_bytes'), 0);
    assert.equal(service.death, undefined);
  }

  for (const { what, bytes, status, error } of hostileBodies) {
    test(`${what}: ${status}`, async () => {
      await assertRefused('new/create', bytes, status, error);
      await assertRefused('promised/create', bytes, status, error);
      await assertRefused('target/create?mode=overwrite', bytes, status, error);
      for (const table of ['target', 'promised'])
        await assertRefused(`${table}/merge_insert?on=id`, bytes, status, error);
      await assertNothingLeft();
    });
  }

  test('a stream that is cut within a message is refused, wherever; between two it is a shorter stream', async () => {
    // `source-reader.test.ts` cuts at every byte.
    const isTried = (length: number) => length % 17 === 0 || [-1, 0, 1].some((by) => goodEnds.has(length + by));
    for (let length = 1; length < goodStream.length; length++) {
      if (!isTried(length)) continue;
      const answer = await service.post('/v1/table/new/create', goodStream.subarray(0, length));
      const rows = goodEnds.get(length);
      if (rows === undefined) {
        assert.equal(answer.status, 400, `cut at ${length}`);
        assert.match((answer.body as { error: string }).error, /\(message \d\)$|does not begin with a schema message$/);
      } else {
        assert.equal(answer.status, 200, `cut at ${length}: ${JSON.stringify(answer.body)}`);
        assert.equal((await service.post('/v1/table/new/count_rows')).body, rows);
        assert.equal((await service.post('/v1/table/new/drop')).status, 200);
      }
    }
    await assertNothingLeft();
  });

  test('a good create works right after, and all of it took little memory', async () => {
    assert.equal((await service.post('/v1/table/good/create', goodStream)).status, 200);
    assert.equal((await service.post('/v1/table/good/count_rows')).body, goodRows);
    const grownBytes = service.memory().peakBytes - idleBytes;
    assert.ok(grownBytes < 300 * MiB, `${grownBytes} bytes above idle`);
  });
});
