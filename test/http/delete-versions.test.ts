/** `version/delete`: versions go before their retention ends, with the files that nothing else needs. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { refused, succeeded } from './checked-service.ts';
import { ownTablesUnder } from './own-tables.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// Writes everywhere, and deletes versions of one branch.
permit (principal == Principal::"writer", action in [Action::"read", Action::"write"], resource);
permit (principal == Principal::"writer", action == Action::"BatchDeleteTableVersions", resource) when { context.branch == "dev" };
`;

type Range = readonly [from: number, before: number];

describe('versions that a client deletes', () => {
  const own = ownTablesUnder(policies, [1]);
  const { post } = own;
  /** Versions 1 to 6, each with one row more. */
  beforeEach(async () => {
    for (const id of [2, 3, 4, 5, 6]) await merge(id);
  });
  const merge = async (id: number, query = '') =>
    succeeded(await own.service.post(`/v1/table/${own.table}/merge_insert?on=id${query}`, people([id], 'y')));
  const bodyOf = (ranges: readonly Range[]) => ({
    ranges: ranges.map(([start_version, end_version]) => ({ start_version, end_version })),
  });
  const remove = async (ranges: readonly Range[], branch?: string): Promise<unknown> =>
    succeeded(await post('version/delete', { ...bodyOf(ranges), branch })).deleted_count;
  const versions = async (branch?: string): Promise<readonly number[]> => {
    const listed = succeeded(await post('version/list', { descending: false, branch })).versions;
    return (listed as readonly { readonly version: number }[]).map(({ version }) => version);
  };
  const count = async (body: object = {}) => (await post('count_rows', body)).body;

  test('the first version of a range goes, its end stays, and so do the rows of all that is left (P1)', async () => {
    assert.deepEqual([await remove([[2, 4]]), await versions()], [2, [1, 4, 5, 6]]);
    assert.deepEqual([await count(), await count({ version: 4 }), await count({ version: 1 })], [6, 4, 1]);
    refused(await post('version/describe', { version: 2 }), 404, 11);
    refused(await post('count_rows', { version: 3 }), 404, 11);
    refused(await post('query', { version: 3, k: 9, filter: 'id > 0' }), 404, 11);
    refused(await post('restore', { version: 3 }), 404, 11);
    await merge(7);
    assert.equal(await count(), 7);
    const native = await (await connect(own.service.tablesFolder)).openTable(own.table);
    assert.equal(await native.countRows(), 7);
  });

  test('ranges that overlap, that are empty or that no version is in count each version once', async () => {
    const huge = 2 ** 63;
    assert.equal(await remove([]), 0);
    assert.equal(
      await remove([
        [3, 3],
        [5, 2],
        [7, huge],
        [huge, -1],
      ]),
      0,
    );
    assert.equal(
      await remove([
        [1, 3],
        [2, 4],
        [2, 4],
      ]),
      3,
    );
    assert.deepEqual([await remove([[1, 4]]), await versions()], [0, [4, 5, 6]]);
  });

  test('the newest version stays, whatever the range', async () => {
    assert.equal(await remove([[6, 7]]), 0);
    assert.deepEqual([await remove([[0, -1]]), await versions(), await count()], [5, [6], 6]);
    await merge(7);
    assert.deepEqual([await remove([[0, 2 ** 60]]), await versions(), await count()], [1, [7], 7]);
  });

  test('a version with a tag stays, and one that a branch starts from (P1)', async () => {
    succeeded(await post('tags/create', { tag: 'kept', version: 2 }));
    succeeded(await post('branches/create', { name: 'dev', from_version: 4 }));
    assert.deepEqual([await remove([[0, -1]]), await versions()], [3, [2, 4, 6]]);
    assert.deepEqual([await count({ version: 2 }), await count({ branch: 'dev' })], [2, 4]);
    succeeded(await post('tags/delete', { tag: 'kept' }));
    assert.deepEqual([await remove([[2, 5]]), await versions()], [1, [4, 6]]);
  });

  test('those of a branch go without those of main, which has the same numbers', async () => {
    succeeded(await post('branches/create', { name: 'dev', from_version: 2 }));
    for (const id of [7, 8]) await merge(id, '&branch=dev');
    assert.deepEqual(await versions('dev'), [2, 3, 4]);
    assert.deepEqual([await remove([[0, -1]], 'dev'), await versions('dev')], [2, [4]]);
    assert.deepEqual([await versions(), await count(), await count({ branch: 'dev' })], [[1, 2, 3, 4, 5, 6], 6, 4]);
  });

  test('the files go that only they had', async () => {
    const files = (folder: string) => readdirSync(join(own.service.tablesFolder, `${own.table}.lance`, folder)).length;
    const upsert = `/v1/table/${own.table}/merge_insert?on=id&when_matched_update_all=true`;
    for (const name of ['a', 'b']) succeeded(await own.service.post(upsert, people([1, 2, 3, 4, 5, 6], name)));
    assert.equal(files('data'), 8);
    assert.equal(await remove([[0, 7]]), 6);
    assert.deepEqual([await versions(), files('data'), await count({ version: 7 })], [[7, 8], 2, 6]);
    assert.equal(await remove([[0, -1]]), 1);
    assert.deepEqual([await versions(), files('data'), await count()], [[8], 1, 6]);
  });

  test('while rows are merged, no merge and no count of the newest version fails (P1, P4)', async () => {
    const merging = (async () => {
      for (let id = 10; id < 40; id += 1)
        await merge(id, '&when_matched_update_all=true&when_not_matched_insert_all=true');
    })();
    let isOver = false;
    const settled = merging.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      await remove([[0, -1]]);
      assert.ok(Number(await count({ predicate: 'id > 0' })) >= 6);
    }
    await settled;
    await remove([[0, -1]]);
    assert.deepEqual([await count(), (await versions()).length], [36, 1]);
  });

  test('ranges that are malformed or too many are refused', async () => {
    refused(await post('version/delete', {}), 400, 13, /ranges/);
    for (const range of [
      [-1, 3],
      [0, -2],
      [1.5, 3],
      ['1', 3],
      [null, 3],
    ]) {
      refused(await post('version/delete', bodyOf([range as unknown as Range])), 400, 13, /ranges/);
    }
    refused(
      await post('version/delete', bodyOf(Array.from({ length: 1_001 }, () => [0, 1] as const))),
      400,
      13,
      /ranges/,
    );
    assert.equal((await versions()).length, 6);
  });

  test('it needs a right of its own, on the branch (P9)', async () => {
    succeeded(await post('branches/create', { name: 'dev', from_version: 2 }));
    const writer = { authorization: `Bearer ${await own.service.mint('lancegate:write', 'writer')}` };
    const all = bodyOf([[0, -1]]);
    refused(await post('version/delete', all, writer), 403, 15);
    refused(await post('version/delete?branch=other', all, writer), 403, 15);
    refused(await own.service.post('/v1/table/none/version/delete', all, writer), 403, 15);
    succeeded(await post('version/delete', { ...all, branch: 'dev' }, writer));
    refused(await post('version/delete', all, { authorization: 'Bearer nobody' }), 401, 16);
    assert.equal((await versions()).length, 6);
  });

  test('it names what is not there: a table, a branch, the versions of a declared table', async () => {
    const all = bodyOf([[0, -1]]);
    refused(await own.service.post('/v1/table/none/version/delete', all), 404, 4);
    refused(await post('version/delete?branch=none', all), 404, 22);
    succeeded(await own.service.post(`/v1/table/declared${own.table}/declare`, {}));
    refused(await own.service.post(`/v1/table/declared${own.table}/version/delete`, all), 400, 19, /declared/);
  });

  test('its audit record has how many versions went', async () => {
    await remove([[1, 3]]);
    const records = own.service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    const { actions, decision, branch, status, deletedVersions } =
      records.findLast(({ route }) => route === '/v1/table/:id/version/delete') ?? {};
    assert.deepEqual(
      { actions, decision, branch, status, deletedVersions },
      {
        ...{ actions: ['BatchDeleteTableVersions'], decision: 'allowed', branch: 'main', status: 200 },
        deletedVersions: 2,
      },
    );
  });
});
