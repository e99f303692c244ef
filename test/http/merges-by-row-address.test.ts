/** The whole service where upserts are committed by row address: what it answers and what is stored. */
import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { before, describe, test } from 'node:test';
import { connectByApiKey, openDirectly, rowsInOrder } from '#test/clients/connections.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, HeaderFields, TestService } from '#test/fixtures/service.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const fieldsOf = (answer: Answer): Record<string, unknown> => {
  const { context: _, ...fields } = succeeded(answer);
  return fields;
};
const countsOf = (answer: Answer): unknown[] => {
  const { num_inserted_rows, num_updated_rows, num_deleted_rows } = succeeded(answer);
  return [num_inserted_rows, num_updated_rows, num_deleted_rows];
};

describe('upserts that are committed by row address', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });

  const directCommits = async (): Promise<number> => {
    const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
    const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
    return Number(/^lancegate_shared_commits_total\{counted_by="key_index"\} (\d+)$/m.exec(text)?.[1] ?? 0);
  };
  const merge = (table: string, ids: number[], name: string, query = '', headers: HeaderFields = {}) =>
    service.post(`/v1/table/${table}/merge_insert?on=id${query}`, people(ids, name), headers);
  /** Each finds its row, by either strategy. */
  async function mergeUntilDirectCommit(table: string, query = ''): Promise<void> {
    const known = await directCommits();
    for (let sent = 0; (await directCommits()) === known; sent++) {
      assert.ok(sent < 100, 'the key index is never there');
      assert.deepEqual(countsOf(await merge(table, [1], 'known', query)), [0, 1, 0]);
    }
  }
  const versionOf = async (table: string): Promise<unknown> =>
    succeeded(await service.post(`/v1/table/${table}/describe`, {})).version;
  async function stored(name: string, branch?: string): Promise<unknown[]> {
    const rows = await rowsInOrder(
      await openDirectly(service, name, { ...(branch !== undefined && { branch }) }),
      'id',
    );
    return rows.map(({ id, name: of }) => `${String(id)}:${String(of)}`);
  }

  test('are those of many tables, too, which are written to in turns (P8, P10)', async () => {
    const tables = Array.from({ length: 20 }, (_, index) => `turns_${index}`);
    for (const table of tables) succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'old')));
    for (let round = 0, direct = 0; direct < tables.length; round++) {
      assert.ok(round < 20, `of the last round, ${direct} were direct`);
      const before = await directCommits();
      for (const table of tables) assert.deepEqual(countsOf(await merge(table, [1], `${round}`)), [0, 1, 0]);
      direct = (await directCommits()) - before;
    }
  });

  test('a retry with its Idempotency-Key is not applied again, and the outcome can be asked for (P6)', async () => {
    succeeded(await service.post('/v1/table/keyed/create', people([1, 2], 'old')));
    await mergeUntilDirectCommit('keyed');
    const known = await directCommits();
    const keyed = { 'idempotency-key': 'once' };
    const first = await merge('keyed', [2, 3], 'first', '', keyed);
    assert.deepEqual(countsOf(first), [1, 1, 0]);
    const { transaction_id, version } = fieldsOf(first);
    assert.equal(await versionOf('keyed'), version);
    succeeded(await merge('keyed', [3], 'later'));
    assert.equal((await directCommits()) - known, 2);
    const again = await merge('keyed', [2, 3], 'first', '', keyed);
    assert.deepEqual(fieldsOf(again), fieldsOf(first));
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(await stored('keyed'), ['1:known', '2:first', '3:later']);
    const described = succeeded(await service.post(`/v1/transaction/${String(transaction_id)}/describe`));
    assert.equal((described.properties as Record<string, string>).version, String(version));
  });

  test('the SDK of LanceDB sees each version, over HTTP and on the storage (P1, P5)', async () => {
    succeeded(await service.post('/v1/table/seen/create', people([1, 2], 'old')));
    await mergeUntilDirectCommit('seen');
    const remote = await (await connectByApiKey(service)).openTable('seen');
    const direct = await openDirectly(service, 'seen');
    const before = await direct.version();
    const { version } = fieldsOf(await merge('seen', [2, 9], 'new'));
    assert.equal(version, before + 1);
    assert.equal(await remote.version(), version);
    assert.equal(await remote.countRows(), 3);
    assert.equal(await direct.countRows("name = 'old'"), 1);
    await direct.checkoutLatest();
    assert.deepEqual(
      (await rowsInOrder(direct, 'id')).map(({ id, name }) => `${String(id)}:${String(name)}`),
      ['1:known', '2:new', '9:new'],
    );
    const merged = await direct
      .mergeInsert('id')
      .whenMatchedUpdateAll()
      .whenNotMatchedInsertAll()
      .execute([
        { id: 9, name: 'theirs' },
        { id: 10, name: 'theirs' },
      ]);
    assert.deepEqual([merged.numInsertedRows, merged.numUpdatedRows], [1, 1]);
    assert.deepEqual(countsOf(await merge('seen', [9, 10, 11], 'ours')), [1, 2, 0]);
    assert.deepEqual(await stored('seen'), ['1:known', '2:new', '9:ours', '10:ours', '11:ours']);
  });

  test('a branch and the table it comes from each have row addresses of their own (P2, P4)', async () => {
    succeeded(await service.post('/v1/table/branched/create', people([1, 2, 3], 'old')));
    await mergeUntilDirectCommit('branched');
    succeeded(await service.post('/v1/table/branched/branches/create', { name: 'dev' }));
    await mergeUntilDirectCommit('branched', '&branch=dev');
    const known = await directCommits();
    assert.deepEqual(countsOf(await merge('branched', [2, 8], 'dev', '&branch=dev')), [1, 1, 0]);
    assert.deepEqual(countsOf(await merge('branched', [3, 8], 'main')), [1, 1, 0]);
    assert.deepEqual(countsOf(await merge('branched', [2, 3, 8], 'dev again', '&branch=dev')), [0, 3, 0]);
    assert.equal((await directCommits()) - known, 3);
    assert.deepEqual(await stored('branched', 'dev'), ['1:known', '2:dev again', '3:dev again', '8:dev again']);
    assert.deepEqual(await stored('branched'), ['1:known', '2:old', '3:main', '8:main']);
    succeeded(await service.post('/v1/table/branched/branches/delete', { name: 'dev' }));
    succeeded(await service.post('/v1/table/branched/branches/create', { name: 'dev' }));
    assert.deepEqual(countsOf(await merge('branched', [2, 8, 9], 'anew', '&branch=dev')), [1, 2, 0]);
    assert.deepEqual(await stored('branched', 'dev'), ['1:known', '2:anew', '3:main', '8:anew', '9:anew']);
  });

  test('a table that is dropped or overwritten leaves no key index to the next of its name (P2, P4)', async () => {
    succeeded(await service.post('/v1/table/replaced/create', people([1, 2], 'old')));
    await mergeUntilDirectCommit('replaced');
    succeeded(await service.post('/v1/table/replaced/create?mode=overwrite', people([1, 7], 'new')));
    assert.deepEqual(countsOf(await merge('replaced', [1, 2], 'first')), [1, 1, 0]);
    await mergeUntilDirectCommit('replaced');
    succeeded(await service.post('/v1/table/replaced/drop', {}));
    succeeded(await service.post('/v1/table/replaced/create', people([1, 2], 'made anew')));
    assert.deepEqual(countsOf(await merge('replaced', [2, 7], 'second')), [1, 1, 0]);
    const { location } = succeeded(await service.post('/v1/table/replaced/describe', {}));
    assert.deepEqual(await stored(basename(String(location), '.lance')), ['1:made anew', '2:second', '7:second']);
  });

  test('after a restart everything that was acknowledged is there, and is found (P2, P3)', async () => {
    succeeded(await service.post('/v1/table/kept/create', people([1, 2], 'old')));
    await mergeUntilDirectCommit('kept');
    const { version } = fieldsOf(await merge('kept', [2, 3], 'kept'));
    await service.restart();
    assert.equal(await versionOf('kept'), version);
    assert.deepEqual(countsOf(await merge('kept', [3, 4], 'after')), [1, 1, 0]);
    await mergeUntilDirectCommit('kept');
    assert.deepEqual(countsOf(await merge('kept', [3, 4, 5], 'last')), [1, 2, 0]);
    assert.deepEqual(await stored('kept'), ['1:known', '2:kept', '3:last', '4:last', '5:last']);
  });
});
