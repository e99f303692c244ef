/** Names of branches on each kind of object store: what `test/http/branch-names.test.ts` requires on a folder. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { azure, google, s3 } from '#test/fixtures/stores-under-test.ts';
import { succeeded } from '#test/http/checked-service.ts';
import { people } from '#test/http/rows.ts';

for (const { name, without, start } of [s3, azure, google]) {
  describe(`names of branches on ${name}`, { skip: without ?? false }, () => {
    const later = afterSuite();

    test('a branch is neither made nor deleted in the files of a living one (P3)', async () => {
      const { newRoot, storageOptions } = await start(later);
      const root = newRoot();
      const settings = { STORAGE_ROOT: root, STORAGE_OPTIONS: JSON.stringify(storageOptions) };
      const service = await startTestService(later, settings);
      const create = (branch: string) => service.post('/v1/table/t/branches/create', { name: branch });
      const remove = (branch: string) => service.post('/v1/table/t/branches/delete', { name: branch });
      const count = async (branch: string) =>
        (await service.post<number>(`/v1/table/t/count_rows?branch=${encodeURIComponent(branch)}`, {})).body;
      const upsert = (branch: string, id: number) =>
        service.post(`/v1/table/t/merge_insert?on=id&branch=${encodeURIComponent(branch)}`, people([id], 'x'));
      succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
      succeeded(await create('p'));
      succeeded(await upsert('p', 2));
      for (const folder of ['data', '_Versions', '_indices/x']) assert.equal((await create(`p/${folder}`)).status, 400);

      const table = await (await connect(root, { storageOptions: { ...storageOptions } })).openTable('t');
      for (const folder of ['data', '_versions']) await (await table.branches()).create(`p/${folder}`);
      for (const folder of ['data', '_versions']) assert.equal((await remove(`p/${folder}`)).status, 400, folder);
      assert.deepEqual([await count('p'), await count('p/data'), await count('p/_versions')], [2, 1, 1]);
      succeeded(await upsert('p', 3));
      assert.deepEqual([await count('p'), await count('p/_versions')], [3, 1]);

      for (const long of ['x'.repeat(209), 'ü'.repeat(20), `${'b/'.repeat(34)}b`]) {
        succeeded(await create(long));
        succeeded(await upsert(long, 2));
        assert.equal(await count(long), 2);
        succeeded(await remove(long));
      }
      assert.equal((await create('x'.repeat(210))).status, 400);
      assert.equal(await count('p'), 3);
    });
  });
}
