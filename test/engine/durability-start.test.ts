import assert from 'node:assert/strict';
import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Int32, Table, tableToIPC, vectorFromArray } from 'apache-arrow';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import type { ObjectName } from '#src/kernel/ids.ts';
import { listVersions, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';

const rows = (...ids: readonly number[]): Uint8Array =>
  tableToIPC(new Table({ id: vectorFromArray(ids, new Int32()) }), 'stream');

/** Two commits to `t` and `other`, of which the catalog has only the first as acknowledged, by a process that died. */
async function crashedService(t: { after(clean: () => void | Promise<void>): void }): Promise<TestService> {
  const service = await startTestService((clean) => t.after(clean));
  for (const table of ['other', 't']) {
    assert.equal((await service.post(`/v1/table/${table}/create`, rows(1))).status, 200);
    assert.equal((await service.post(`/v1/table/${table}/merge_insert?on=id`, rows(2))).status, 200);
  }
  return service;
}

async function markOpen(dataFolder: string, names: readonly string[]): Promise<void> {
  const catalog = await openSqliteCatalog(join(dataFolder, 'catalog.sqlite'), { holder: { command: 'a test' } });
  for (const name of names) {
    const record = await catalog.findTable({ namespace: [], name: name as ObjectName });
    assert.ok(record !== undefined);
    const mark = { branch: undefined, acknowledgedVersion: 1, storageSession: 'before the power cut' };
    await catalog.markOpenForWriting({ tableId: record.id, ...mark });
  }
  await catalog.close();
}

function tear(service: TestService, table: string, version: number): void {
  const versions = join(service.tablesFolder, `${table}.lance`, '_versions');
  assert.deepEqual(listVersions(versions), [1, 2]);
  truncateSync(readManifest(versions, version)?.path ?? '');
}

test('a start undoes a torn commit before a client asks, says which, and closes the branch (P1)', async (t) => {
  const service = await crashedService(t);
  await service.restart(async () => {
    await markOpen(service.dataFolder, ['t']);
    tear(service, 't', 2);
  });
  assert.equal((await service.post('/v1/table/t/count_rows')).body, 1);
  const [line = '{}', ...more] = service.log.filter((entry) => entry.includes('undid a commit'));
  const { level, table, branch, version, reason } = JSON.parse(line) as Record<string, unknown>;
  assert.deepEqual([level, table, branch, version, more], ['warn', 't', 'main', 2, []]);
  assert.match(String(reason), /its manifest/);
  await service.restart();
  assert.equal(service.log.filter((entry) => entry.includes('undid a commit')).length, 1);
});

test('a table whose acknowledged version is damaged is reported at every start, and the others are served', async (t) => {
  const service = await crashedService(t);
  await service.restart(async () => {
    await markOpen(service.dataFolder, ['other', 't']);
    tear(service, 'other', 1);
  });
  assert.equal((await service.post('/v1/table/t/count_rows')).body, 2);
  const reports = () => service.log.filter((line) => line.includes('the disk lost acknowledged rows'));
  assert.equal(reports().length, 1);
  assert.match(reports()[0] ?? '', /"level":"error".*"table":"other"/);
  await service.restart();
  assert.equal(reports().length, 2);
});
