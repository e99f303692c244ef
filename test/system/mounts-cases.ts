/** To be run by `mounts.test.ts`, which mounts `tables`, `data/scratch` and `mirrors` in the folder of temporary files. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eachWrite, someRows } from '#test/fixtures/each-write.ts';
import { location, mirroredBranch } from '#test/fixtures/mirrored-branch.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { part, transact } from '#test/http/multipart-body.ts';
import { SmallDisk } from './small-disk.ts';

const root = join(tmpdir(), 'tables');
const mountedAs = (mode: 'ro' | 'rw') => execFileSync('mount', ['-o', `remount,${mode}`, root]);

test('each write to a storage that is read-only is 503 with nothing written, and each read goes on', async (t) => {
  const service = await startTestService(t.after.bind(t), { STORAGE_ROOT: root, AUTO_MAINTENANCE: 'false' });
  const post = async (route: string, body: object = {}) => service.post(`/v1/table/${route}`, body);
  const done = async (route: string, body: object) => assert.equal((await post(route, body)).status, 200, route);
  await done('t/create', someRows([1, 2, 3]));
  await done('t/create_scalar_index', { column: 'id', index_type: 'BTREE' });
  await done('t/tags/create', { tag: 'kept', version: 1 });
  await done('t/branches/create', { name: 'kept' });
  for (const id of [4, 5, 6, 7]) await done('t/insert', someRows([id]));
  mountedAs('ro');
  t.after(() => mountedAs('rw'));
  const both = [
    part('gone', { operation: 'delete', predicate: 'id = 1' }),
    part('put', { operation: 'merge_insert', on: 'id', source: 'rows' }),
    part('rows', someRows([1, 8])),
  ];
  const several = await transact(service, 't', both);
  assert.deepEqual([several.status, several.body.error], [503, 'the storage is read-only; nothing was written']);
  for (const [route, body] of eachWrite) {
    const { status, body: answer } = await post(route, body);
    assert.deepEqual([route, status, answer.error], [route, 503, 'the storage is read-only; nothing was written']);
  }
  assert.equal((await post('t/count_rows')).body, 7);
  mountedAs('rw');
  await done('t/maintain', {});
  await done('t/merge_insert?on=id', someRows([1, 8]));
  assert.equal((await post('t/count_rows')).body, 8);
});

test('a scratch folder that is a full file system of its own is emptied by a start, and holds up no read or write', async (t) => {
  const data = join(tmpdir(), 'data');
  const disk = new SmallDisk(join(data, 'scratch'));
  disk.fillBytes(0);
  const service = await startTestService(t.after.bind(t), { DATA: data });
  assert.ok(!existsSync(join(data, 'scratch', 'filler')), 'a start empties it');
  disk.fillBytes(0);
  assert.equal((await service.post('/v1/table/t/create', someRows([1, 2]))).status, 200);
  const filtered = '/v1/table/t/merge_insert?on=id&when_matched_update_all_filt=target.id%20%3D%201';
  assert.equal((await service.post(filtered, someRows([1, 2]))).status, 200);
  assert.equal((await service.post('/v1/table/t/count_rows', { predicate: 'id = 1' })).body, 1);
  assert.equal((await service.post('/v1/table/t/query', { k: 9 })).status, 200);
});

test('a full disk of mirrors refuses a version before it is made, and a look leaves no torn file behind (P1, P6)', async (t) => {
  const mirrors = join(tmpdir(), 'mirrors');
  const { store, mirror, names } = await mirroredBranch(t, Date.now, mirrors);
  const disk = new SmallDisk(mirrors);
  t.after(() => disk.empty());
  const isFull = { kind: 'StorageFull' };
  disk.fillBytes(0);
  await assert.rejects(mirror.open(), isFull);
  disk.empty();
  await mirror.open();
  const head = (await mirror.take(1)) ?? assert.fail();
  const [name] = names(2);
  disk.fillBytes(0);
  await assert.rejects(mirror.makeVersion({ version: 2, bytes: head.bytes }, name), isFull);
  assert.equal(await store.get(`${location}/_versions/${name}`), undefined);
  disk.empty();
  assert.equal(await mirror.makeVersion({ version: 2, bytes: head.bytes }, name), true);
  assert.deepEqual([await mirror.refresh(), mirror.known], [2, 2]);
});
