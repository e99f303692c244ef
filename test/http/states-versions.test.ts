import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows } from './rows.ts';

describe('the writes of one table have one order, and version says where in it (P5)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const create = async (table: string) =>
    succeeded(await service.post(`/v1/table/${table}/create`, people([0], 'old')));
  const merge = async (table: string, ids: readonly number[], name: string, query = '') =>
    succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id${query}`, people(ids, name)));

  test('one after the other, versions grow, and describe is at the newest', async () => {
    assert.equal((await create('line')).version, 1);
    let newest = 1;
    for (const id of [1, 2, 3, 4]) {
      const version = Number((await merge('line', [id], 'x')).version);
      assert.ok(version > newest, `${version} after ${newest}`);
      newest = version;
      assert.equal(succeeded(await service.post('/v1/table/line/describe')).version, newest);
    }
  });

  test('at once, some share a version, and rows are those of one that has the greatest', async () => {
    await create('crowd');
    const names = Array.from({ length: 16 }, (_, i) => `client ${i}`);
    const answers = await Promise.all(names.map(async (name) => ({ name, ...(await merge('crowd', [1, 2], name)) })));
    const versions = answers.map((answer) => Number((answer as { version?: unknown }).version));
    const greatest = Math.max(...versions);
    const last = names.filter((_, i) => versions[i] === greatest);
    const [old, first, second] = await storedRows(service, 'crowd');
    assert.deepEqual(old, { id: 0, name: 'old' });
    assert.ok(last.includes(String(first?.name)), `${first?.name} is not one of the last: ${last}`);
    assert.deepEqual([first?.id, second], [1, { id: 2, name: first?.name }], 'both rows are of one request');
  });

  test('what was acknowledged before a request began has a smaller version', async () => {
    await create('order');
    let acknowledged = 1;
    const client = async (name: string) => {
      for (let round = 0; round < 8; round++) {
        const before = acknowledged;
        const version = Number((await merge('order', [round], name)).version);
        assert.ok(version > before, `${version} was given after ${before} had been acknowledged`);
        acknowledged = Math.max(acknowledged, version);
      }
    };
    await Promise.all(['a', 'b', 'c', 'd'].map(client));
  });

  test('a merge of no rows makes no version, and answers the newest', async () => {
    await create('nothing');
    const { version } = await merge('nothing', [5], 'x');
    const empty = await merge('nothing', [], 'x');
    assert.deepEqual(
      [empty.version, empty.num_inserted_rows, empty.num_updated_rows, empty.num_deleted_rows],
      [version, 0, 0, 0],
    );
    assert.equal(succeeded(await service.post('/v1/table/nothing/describe')).version, version);
  });

  test('each branch counts for itself from where it began', async () => {
    await create('tree');
    await merge('tree', [1], 'main');
    succeeded(await service.post('/v1/table/tree/branches/create', { name: 'dev' }));
    const first = Number((await merge('tree', [2], 'dev', '&branch=dev')).version);
    const second = Number((await merge('tree', [3], 'dev', '&branch=dev')).version);
    assert.ok(first > 2 && second > first);
    assert.equal((await merge('tree', [4], 'main')).version, 3);
    const count = async (branch: string) => (await service.post<unknown>('/v1/table/tree/count_rows', { branch })).body;
    assert.deepEqual([await count('main'), await count('dev')], [3, 4]);
  });

  test('the order outlives a restart (P3)', async () => {
    await create('kept');
    const { version } = await merge('kept', [1], 'before');
    await service.restart();
    assert.equal(succeeded(await service.post('/v1/table/kept/describe')).version, version);
    assert.ok(Number((await merge('kept', [1], 'after')).version) > Number(version));
  });
});
