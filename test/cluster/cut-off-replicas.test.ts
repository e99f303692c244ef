/** A replica that a silent network cuts off from the catalog: balancers and clients learn it in seconds (P6, P11). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { PostgresProxy } from '#test/fixtures/postgres-proxy.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';
import { people } from '#test/http/rows.ts';

/** Much longer than it takes on an idle machine, and less than the 32 s of a statement. */
const withinMs = 25_000;

describe('a replica that is cut off', { skip: withoutPostgres ?? false }, () => {
  test('from the catalog is not ready, refuses reads and writes in seconds, and heals by itself', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await sharedPostgres();
    const proxy = await PostgresProxy.open(server.port);
    after(() => proxy[Symbol.asyncDispose]());
    const database = new URL(await server.newDatabase()).pathname.slice(1);
    const service = await startTestService(after, {
      CATALOG: server.urlOf(database, proxy.port),
      STORAGE_ROOT: temporaryFolder(after),
    });
    const read = () => service.post('/v1/table/t/count_rows', {});
    const write = (id: number) => service.post('/v1/table/t/merge_insert?on=id', people([id], 'x'));
    const isReady = async () => (await service.get('/readyz')).status === 200;
    assert.equal((await service.post('/v1/table/t/create', people([1], 'x'))).status, 200);
    assert.equal(await isReady(), true);
    const cutAtMs = performance.now();
    proxy.isSilent = true;
    const refused = await Promise.all([read(), write(2)]);
    for (const { status, body } of refused) {
      assert.equal(status, 503, JSON.stringify(body));
      assert.match(String(body.error), /nothing was written/);
    }
    await eventually('not ready', async () => !(await isReady()));
    assert.ok(performance.now() - cutAtMs < withinMs);
    proxy.isSilent = false;
    await eventually('ready', isReady);
    await eventually('writing', async () => (await write(3)).status === 200);
    assert.equal((await read()).body, 2);
  });
});
