/** The whole service on a PostgreSQL catalog. */
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { runInProcess } from '#test/cli/in-process.ts';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { guarded, sharedPostgres, startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { people } from '#test/http/rows.ts';

describe('a service on PostgreSQL', { skip: withoutPostgres ?? false }, () => {
  test('refuses with 503 what needs the catalog while it is gone, and heals by itself (P6)', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await startPostgres(after);
    const service = await startTestService(after, { CATALOG: await server.newDatabase() });
    const upsert = (id: number) => service.post('/v1/table/t/merge_insert?on=id', people([id], 'x'));
    const count = async () => (await service.post<number>('/v1/table/t/count_rows', {})).body;
    assert.equal((await service.post('/v1/table/t/create', people([1], 'x'))).status, 200);
    assert.equal((await upsert(2)).status, 200);
    assert.equal((await service.get('/readyz')).status, 200);
    await server.stop();
    const refused = await upsert(3);
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '2']);
    assert.equal(refused.body.error, 'the catalog is not available; nothing was written');
    assert.equal((await service.get('/healthz')).status, 200);
    await server.start();
    assert.equal((await upsert(4)).status, 200);
    assert.equal(await count(), 3);
    await service.restart();
    assert.equal(await count(), 3);
  });

  test('takes a database for the same on every replica, at once, and on the hop to the owner (P5)', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await sharedPostgres();
    const settings = { CATALOG: await server.newDatabase(), STORAGE_ROOT: temporaryFolder(after) };
    const [one, two] = [await startTestService(after, settings), await startTestService(after, settings)];
    const late = { 'x-lancedb-database': 'late' };
    assert.equal((await one.post('/v1/table/t/create', people([1], 'x'), late)).status, 200); // in the root
    assert.equal((await two.get('/v1/table/', late)).status, 200);
    assert.equal((await one.post('/v1/namespace/late/create', {})).status, 200);
    assert.deepEqual((await two.get('/v1/table/', late)).body, { tables: [] });
    assert.equal((await one.post('/v1/table/t/create', people([1, 2], 'x'), late)).status, 200);
    assert.equal((await two.post('/v1/table/t/merge_insert?on=id', people([3], 'x'), late)).status, 200);
    const count = async (headers = {}) => (await one.post<number>('/v1/table/t/count_rows', {}, headers)).body;
    assert.deepEqual([await count(late), await count()], [3, 1]);
    assert.equal((await two.post('/v1/table/t/drop', {}, late)).status, 200);
    assert.equal((await one.post('/v1/namespace/late/drop', {})).status, 200);
    assert.equal((await two.get('/v1/table/', late)).status, 404);
    assert.equal(await count(), 1);
  });

  test('accepts the credentials that the commands make in its catalog, and no password is told (P9)', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await sharedPostgres();
    const url = Object.assign(new URL(await server.newDatabase()), {
      username: guarded.user,
      password: encodeURIComponent(guarded.password),
    }).href;
    const service = await startTestService(after, { CATALOG: url });
    const data = temporaryFolder(after);
    const run = (...args: string[]) => runInProcess([...args, '--data', data], { env: { LANCEGATE_CATALOG: url } });
    const made = await run('api-key', 'create', '--subject', 'loader', '--scope', 'lancegate:write');
    assert.equal(made.code, 0, made.stderr);
    const key = made.stdout.toString().trim();
    const create = (table: string, headers: Record<string, string>) =>
      service.post(`/v1/table/${table}/create`, people([1], 'x'), headers);
    assert.equal((await create('t', { 'x-api-key': key })).status, 200);
    const [id] = (await run('api-key', 'list')).stdout.toString().split('\t');
    assert.equal((await run('api-key', 'revoke', id!)).stdout.toString(), `revoked ${id}\n`);
    const config = (await run('config')).stdout.toString();
    assert.match(config, /^catalog +postgres:\/\/guarded:\*{8}@127\.0\.0\.1:\d+\/\w+ +LANCEGATE_CATALOG$/m);
    const inFlag = await runInProcess(['config', '--catalog', url]);
    assert.match(inFlag.stderr, /--catalog: other users of this machine can see a password in a flag/);
    for (const text of [config, inFlag.stderr, made.stderr, ...service.log]) {
      assert.doesNotMatch(text, /p@ss|p%40ss/);
    }
  });

  test('does not start on another storage root than the one that its catalog remembers', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const CATALOG = await (await sharedPostgres()).newDatabase();
    const root = join(temporaryFolder(after), 'tables');
    const moved = join(temporaryFolder(after), 'moved');
    const first = await startTestService(after, { CATALOG, STORAGE_ROOT: root });
    assert.equal((await first.post('/v1/table/t/create', people([1], 'x'))).status, 200);
    const sameRoot = await startTestService(after, { CATALOG, STORAGE_ROOT: `${root}/` });
    await sameRoot.close();
    const startMoved = (from?: string) =>
      startTestService(after, {
        CATALOG,
        STORAGE_ROOT: moved,
        ...(from !== undefined && { STORAGE_ROOT_MOVED_FROM: from }),
      });
    const refusal = new RegExp(`are in ${root}, .* started for ${moved}: .* --storage-root-moved-from ${root}`);
    await assert.rejects(startMoved(), refusal);
    await assert.rejects(startMoved('/elsewhere'), refusal);
    await assert.rejects(startMoved(root), new RegExp(`stays ${root}, .*replicas still run, at ${first.url}\\.`));
    await first.close();
    cpSync(root, moved, { recursive: true });
    const second = await startMoved(`${root}/`);
    assert.equal((await second.post<number>('/v1/table/t/count_rows', {})).body, 1);
    await assert.rejects(
      startTestService(after, { CATALOG, STORAGE_ROOT: root }),
      new RegExp(`are in ${moved}, .* started for ${root}:`),
    );
    await second.restart();
  });

  test('has a data folder of its own', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await sharedPostgres();
    const service = await startTestService(after, { CATALOG: await server.newDatabase() });
    await assert.rejects(
      startTestService(after, { CATALOG: await server.newDatabase(), DATA: service.dataFolder }),
      /is held by process \d+ \(lancegate serve on http:/,
    );
  });
});
