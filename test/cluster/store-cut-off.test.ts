/** A replica that a silent network cuts off from the store: balancers and clients learn it in seconds (P6, P11). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { eventually } from '#test/http/eventually.ts';
import { people } from '#test/http/rows.ts';

/** Much longer than it takes on an idle machine, and less than the 45 s of the store's clients. */
const withinMs = 25_000;

describe('a replica that is cut off', { skip: withoutPostgres ?? withoutS3Gateway ?? false }, () => {
  test('from the store is not ready, refuses reads without a wait, and heals by itself', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const gateway = await startS3Gateway(after);
    const store = await startStoreProxy(after, gateway.storageOptions);
    const service = await startTestService(after, {
      CATALOG: await (await sharedPostgres()).newDatabase(),
      STORAGE_ROOT: gateway.newRoot(),
      STORAGE_OPTIONS: JSON.stringify(store.storageOptions),
    });
    const missing = 'the storage does not answer this replica; nothing was written';
    const read = (what: string) => service.post(`/v1/table/t/${what}`, {});
    assert.equal((await service.post('/v1/table/t/create', people([1], 'x'))).status, 200);
    assert.equal((await service.get('/readyz')).status, 200);
    const isBack = Promise.withResolvers<void>();
    after(() => isBack.resolve());
    const cutAtMs = performance.now();
    store.faults = () => ({ kind: 'held', until: isBack.promise });
    await eventually('not ready', async () => (await service.get('/readyz')).status === 503);
    assert.equal((await service.get('/readyz')).body.error, missing);
    for (const what of ['count_rows', 'describe', 'query']) {
      const body = what === 'query' ? { k: 1, version: 1, vector: {} } : {};
      const refusal = () => service.post(`/v1/table/t/${what}`, body);
      assert.deepEqual([(await refusal()).status, (await refusal()).body.error], [503, missing], what);
    }
    assert.ok(performance.now() - cutAtMs < withinMs);
    store.faults = () => undefined;
    isBack.resolve();
    await eventually('ready', async () => (await service.get('/readyz')).status === 200);
    assert.deepEqual([(await read('count_rows')).status, (await read('describe')).status], [200, 200]);
  });
});
