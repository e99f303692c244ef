/** A branch is a folder below those of the branches that its name begins with. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';

const rows = (...id: number[]) => tableToIPC(tableFromArrays({ id }), 'stream');

describe('names of branches', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(later);
  });

  const makeTable = async (name: string, ...branches: string[]) => {
    assert.equal((await service.post(`/v1/table/${name}/create`, rows(1))).status, 200);
    for (const branch of branches) {
      assert.equal((await create(name, branch)).status, 200);
      const target = `/v1/table/${name}/merge_insert?on=id&branch=${encodeURIComponent(branch)}`;
      assert.equal((await service.post(target, rows(2))).status, 200);
    }
  };
  const create = (table: string, name: string) => service.post(`/v1/table/${table}/branches/create`, { name });
  const remove = (table: string, name: string) => service.post(`/v1/table/${table}/branches/delete`, { name });
  const count = async (table: string, branch: string) =>
    (await service.post<number>(`/v1/table/${table}/count_rows?branch=${encodeURIComponent(branch)}`, {})).body;
  /** As a program does that writes to the storage root itself. */
  const createDirectly = async (table: string, name: string) => {
    const opened = await (await connect(service.tablesFolder)).openTable(table);
    await (await opened.branches()).create(name);
  };
  const foldersOf = (table: string) => readdirSync(join(service.tablesFolder, `${table}.lance`, 'tree'));

  test('a branch is not made in the files of another one, whatever the spelling (P3, P9)', async () => {
    await makeTable('spelt', 'p');
    const folders = [
      'data',
      '_versions',
      '_transactions',
      '_deletions',
      '_indices',
      '_refs',
      '_blobs',
      '_mem_wal',
      'tree',
    ];
    const spelt = [
      'DATA',
      'dAta',
      'ｄａｔａ',
      '_verſions',
      '_İNDICES',
      '_ındıces',
      'data.',
      'data/x',
      'x/data',
      'x/y/_Versions/z',
    ];
    for (const segment of [...folders, ...spelt]) {
      const { status, body } = await create('spelt', `p/${segment}`);
      assert.equal(status, 400, segment);
      assert.match(String(body.error), /no part after the first that Lance uses/, segment);
    }
    assert.equal(await count('spelt', 'p'), 2);
    for (const name of ['data', 'tree', 'p/database', 'p/versions', 'data/p']) {
      assert.equal((await create('spelt', name)).status, 200, name);
    }
  });

  test('a branch that another program made in the files of a living one is not deleted over it (P3)', async () => {
    await makeTable('outside', 'p');
    await createDirectly('outside', 'p/data');
    const { status, body } = await remove('outside', 'p/data');
    assert.equal(status, 400);
    assert.match(String(body.error), /its folder holds files of another branch/);
    assert.equal(await count('outside', 'p'), 2);
    assert.equal((await remove('outside', 'p')).status, 200);
    assert.match(String((await create('outside', 'p')).body.error), /another program has made a branch/);
    assert.equal((await remove('outside', 'p/data')).status, 200);
    assert.equal((await create('outside', 'p')).status, 200);
  });

  test('a branch below main is not made, and one of another program is not deleted with its table (P3, P9)', async () => {
    await makeTable('below', 'p', 'Main/x', 'p/main');
    const { status, body } = await create('below', 'main/x');
    assert.equal(status, 400);
    assert.match(String(body.error), /does not begin with "main\/"/);
    await createDirectly('below', 'main/x');
    const refused = await remove('below', 'main/x');
    assert.equal(refused.status, 400);
    assert.match(String(refused.body.error), /would delete the whole table/);
    assert.equal((await remove('below', 'Main/x')).status, 200);
    assert.equal((await remove('below', 'p/main')).status, 200);
    assert.deepEqual(
      [await count('below', 'main'), await count('below', 'p'), await count('below', 'main/x')],
      [1, 2, 1],
    );
  });

  test('a name that is too long as it is stored is refused and leaves nothing (P1)', async () => {
    await makeTable('long', 'p');
    for (const name of ['x'.repeat(210), 'x'.repeat(255), 'ü'.repeat(21), '漢'.repeat(14), `${'b/'.repeat(35)}b`]) {
      const { status, body } = await create('long', name);
      assert.equal(status, 400, name);
      assert.match(String(body.error), /takes at most 209 bytes on storage/);
    }
    assert.deepEqual(foldersOf('long'), ['p']);
    for (const name of ['x'.repeat(209), 'ü'.repeat(20), '漢'.repeat(13), `${'b/'.repeat(34)}b`]) {
      assert.equal((await create('long', name)).status, 200, name);
      assert.equal((await remove('long', name)).status, 200, name);
    }
  });
});
