/** To be run by `full-scratch.test.ts`, which mounts a `scratch` for each store in the folder of temporary files. */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eachWrite, someRows } from '#test/fixtures/each-write.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { azure, google, s3 } from '#test/fixtures/stores-under-test.ts';
import { part, transact } from '#test/http/multipart-body.ts';
import { SmallDisk } from '#test/system/small-disk.ts';

for (const [folder, { name, without, start }] of Object.entries({ s3, azure, google })) {
  test(`on ${name} a full scratch disk refuses a write with nothing written, or does not matter`, {
    skip: without ?? false,
  }, async (t) => {
    const { newRoot, storageOptions } = await start((clean) => t.after(clean));
    const data = join(tmpdir(), folder);
    const disk = new SmallDisk(join(data, 'scratch'));
    const service = await startTestService(t.after.bind(t), {
      ...{ DATA: data, STORAGE_ROOT: newRoot(), STORAGE_OPTIONS: JSON.stringify(storageOptions) },
      AUTO_MAINTENANCE: 'false',
    });
    const post = async (route: string, body: object = {}) => service.post(`/v1/table/${route}`, body);
    const done = async (route: string, body: object) => assert.equal((await post(route, body)).status, 200, route);
    await done('t/create', someRows([1, 2, 3]));
    await done('t/create_scalar_index', { column: 'id', index_type: 'BTREE' });
    await done('t/tags/create', { tag: 'kept', version: 1 });
    await done('t/branches/create', { name: 'kept' });
    for (const id of [4, 5, 6, 7]) await done('t/insert', someRows([id]));
    const version = async () => (await post('t/describe')).body.version;
    const both = [
      part('gone', { operation: 'delete', predicate: 'id = 1' }),
      part('put', { operation: 'merge_insert', on: 'id', source: 'rows' }),
      part('rows', someRows([1, 8])),
    ];
    const writes = eachWrite.map(([route, body]) => [route, () => post(route, body)] as const);
    const refused: string[] = [];
    for (const [route, write] of [['t/transact', () => transact(service, 't', both)] as const, ...writes]) {
      const before = await version();
      disk.fillBytes(0);
      const { status, body } = await write();
      disk.empty();
      assert.ok(status === 200 || status === 503, `${route}: ${status} ${JSON.stringify(body)}`);
      if (status === 200) continue;
      refused.push(route);
      assert.match(String(body.error), /nothing was written/, route);
      assert.equal(await version(), before, route);
    }
    t.diagnostic(refused.join(' '));
    assert.ok(refused.includes('t/maintain'));
    await done('t/maintain', {});
    await done('t/create?mode=overwrite', someRows([1, 8]));
    await done('t/merge_insert?on=id', someRows([1, 9]));
    assert.equal((await post('t/count_rows')).body, 3);
  });
}
