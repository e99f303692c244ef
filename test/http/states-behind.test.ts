/** Tables that went back, since their files are older than the catalog or a manifest vanished; and catalogs of other folders. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { listVersions, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { afterSuite, lastFirst } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

describe('a table that went back to an older version than was acknowledged (P3)', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later);
  });

  const health = async () => (await fetch(`${service.url}/healthz`)).json();
  const pathOf = (table: string) => join(service.tablesFolder, `${table}.lance`);
  const upsert = (table: string, id: number, query = '') =>
    service.post(`/v1/table/${table}/merge_insert?on=id${query}`, people([id], 'x'));
  const count = async (table: string) => (await service.post<number>(`/v1/table/${table}/count_rows`, {})).body;
  const said = (table: string) =>
    service.log.filter((line) => line.includes('went back') && line.includes(`"${table}"`));

  const created = async (): Promise<string> => {
    tables += 1;
    const table = `t${tables}`;
    succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'x')));
    succeeded(await upsert(table, 2));
    return table;
  };
  const isWithheld = async (table: string) => {
    const versions = listVersions(join(pathOf(table), '_versions'));
    const writes = [
      () => upsert(table, 9),
      () => service.post(`/v1/table/${table}/insert`, people([9], 'x')),
      () => service.post(`/v1/table/${table}/delete`, { predicate: 'id = 1' }),
      () => service.post(`/v1/table/${table}/update`, { updates: [['name', "'y'"]] }),
      () => service.post(`/v1/table/${table}/restore`, { version: 1 }),
      () => service.post(`/v1/table/${table}/add_columns`, { new_columns: [{ name: 'c', expression: '1' }] }),
      () => service.post(`/v1/table/${table}/version/delete`, { ranges: [{ start_version: 1, end_version: 2 }] }),
      () => service.post(`/v1/table/${table}/maintain`),
      () => service.post(`/v1/table/${table}/tags/create`, { tag: 'late', version: 1 }),
      () => service.post(`/v1/table/${table}/branches/create`, { name: 'late' }),
    ];
    for (const write of writes) refused(await write(), 400, 19, /was acknowledged.*nothing was written/s);
    assert.deepEqual(listVersions(join(pathOf(table), '_versions')), versions);
    assert.equal(said(table).length, 1);
    assert.deepEqual(await health(), { status: 'alive', version: 'test', branches_behind: 1 });
  };
  const accept = async (table: string) => {
    succeeded(await service.post(`/v1/table/${table}/register`, { location: `${table}.lance`, mode: 'overwrite' }));
    assert.deepEqual(await health(), { status: 'alive', version: 'test' });
    succeeded(await upsert(table, 9));
  };

  test('by its newest manifest that vanished: nothing is written until it is registered anew', async () => {
    const table = await created();
    rmSync(readManifest(join(pathOf(table), '_versions'), 2)!.path);
    assert.equal(await count(table), 1);
    await isWithheld(table);
    await accept(table);
    assert.equal(await count(table), 2);
  });

  test('by a manifest that vanished for a while under the running service: the write after it notices', async () => {
    const table = await created();
    const { path } = readManifest(join(pathOf(table), '_versions'), 2)!;
    renameSync(path, `${path}.away`);
    await isWithheld(table);
    renameSync(`${path}.away`, path);
    succeeded(await upsert(table, 3));
    assert.deepEqual([await count(table), await health()], [3, { status: 'alive', version: 'test' }]);
  });

  test('by older files under a newer catalog: the start says so, and the files that come back end it', async () => {
    const table = await created();
    const backup = join(temporaryFolder(later), 'backup');
    cpSync(pathOf(table), backup, { recursive: true });
    succeeded(await upsert(table, 3));
    const newer = join(temporaryFolder(later), 'newer');
    await service.restart(async () => {
      renameSync(pathOf(table), newer);
      cpSync(backup, pathOf(table), { recursive: true });
    });
    assert.equal(said(table).length, 1);
    assert.deepEqual(await health(), { status: 'alive', version: 'test', branches_behind: 1 });
    await isWithheld(table);
    rmSync(pathOf(table), { recursive: true });
    renameSync(newer, pathOf(table));
    succeeded(await upsert(table, 4));
    assert.deepEqual([await count(table), await health()], [4, { status: 'alive', version: 'test' }]);
  });

  test('on a branch: main is written to', async () => {
    const table = await created();
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev' }));
    succeeded(await upsert(table, 3, '&branch=dev'));
    const versions = join(pathOf(table), 'tree', 'dev', '_versions');
    rmSync(readManifest(versions, listVersions(versions).at(-1)!)!.path);
    refused(await upsert(table, 4, '&branch=dev'), 400, 19, /was acknowledged/);
    succeeded(await upsert(table, 4));
    succeeded(await service.post(`/v1/table/${table}/branches/delete`, { name: 'dev' }));
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev' }));
    succeeded(await upsert(table, 5, '&branch=dev'));
  });
});

test('the catalog of another data folder is refused, and taken where its id is removed', async (t) => {
  const after = lastFirst((clean) => t.after(clean));
  const folders: string[] = [];
  for (const id of [1, 2]) {
    const service = await startTestService(after);
    succeeded(await service.post('/v1/table/t/create', people([id], 'x')));
    await service.close();
    folders.push(service.dataFolder);
  }
  const [one = '', other = ''] = folders;
  for (const name of ['catalog.sqlite', 'catalog.sqlite-wal', 'catalog.sqlite-shm']) {
    rmSync(join(other, name), { force: true });
    if (existsSync(join(one, name))) cpSync(join(one, name), join(other, name));
  }
  await assert.rejects(startTestService(after, { DATA: other }), /of another data folder.*catalog-id/s);
  rmSync(join(other, 'catalog-id'));
  const taken = await startTestService(after, { DATA: other });
  assert.equal((await taken.post('/v1/table/t/count_rows', {})).status, 200);
});
