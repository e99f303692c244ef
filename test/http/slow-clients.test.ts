/** Clients that ask for large results and do not read them, and what others wait for meanwhile. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { Int32, tableFromIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { stream } from './rows.ts';

describe('a result that waits for its client', () => {
  const later = afterSuite();
  let service: TestService;
  const rows = 16_000;
  const query = (k: number) => ({ vector: [], k });
  before(async () => {
    service = await startCheckedService(later, { READERS: '4', UPLOAD_IDLE_TIMEOUT: '2m' });
    const id = Array.from({ length: rows }, (_, i) => i);
    const long = 'x'.repeat(1_000);
    const text = vectorFromArray(
      id.map((i) => `${i}${long}`),
      new Utf8(),
    );
    succeeded(await service.post('/v1/table/large/create', stream({ id: vectorFromArray(id, new Int32()), text })));
    succeeded(await service.post('/v1/table/large/query', query(1)));
  });
  /** An answer whose body has not been read yet. */
  const begin = async (subject: string): Promise<IncomingMessage> => {
    const asked = request(`${service.url}/v1/table/large/query`, {
      method: 'POST',
      headers: { authorization: `Bearer ${await service.mint('lancegate:read', subject)}`, connection: 'close' },
    });
    asked.end(JSON.stringify(query(rows)));
    return new Promise((resolve, reject) => {
      asked.once('response', resolve).once('error', reject);
    });
  };
  const gauge = async (name: string): Promise<number> => {
    const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
    const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
    return Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1]);
  };

  test('holds no reader while others wait, and reaches its client whole (P10)', async () => {
    const stalled = [await begin('one'), await begin('one'), await begin('two')];
    await eventually('they hold all readers that queries may have', async () => {
      return (await gauge('lancegate_reader_queries_running')) === 3;
    });
    const hog = begin('two');
    const asking = performance.now();
    const headers = { authorization: `Bearer ${await service.mint('lancegate:read', 'three')}` };
    succeeded(await service.post('/v1/table/large/query', query(1), headers));
    const tookMs = performance.now() - asking;
    assert.ok(tookMs < 60_000, `${tookMs} ms, and the clients may stand still for 2 minutes`);
    for (const answer of [...stalled, await hog]) {
      const table = tableFromIPC(Buffer.concat(await answer.toArray()));
      assert.equal(table.numRows, rows);
      assert.equal(table.getChild('id')?.get(rows - 1), rows - 1);
    }
    const entries = readdirSync(join(service.dataFolder, 'scratch'), { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
    assert.deepEqual(files, [], 'nothing of the results is left in the scratch folder');
  });
});
