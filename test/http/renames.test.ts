/** `rename`: another name, the same table. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"archivist", action, resource in Namespace::"archive");
permit (principal == Principal::"keeper", action, resource == Table::"kept");
`;

describe('renaming a table', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/namespace/archive/create', {}));
  });
  const create = async (id: string) => succeeded(await service.post(`/v1/table/${id}/create`, people([1, 2], 'x')));
  const rename = (id: string, body: object, headers?: Record<string, string>) =>
    service.post(`/v1/table/${id}/rename`, body, headers);
  const merge = (id: string, row: number, headers?: Record<string, string>) =>
    service.post(`/v1/table/${id}/merge_insert?on=id`, people([row], 'y'), headers);
  const count = async (id: string) => (await service.post(`/v1/table/${id}/count_rows`)).body as unknown;
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });

  test('rows, branches, tags and versions are those of before, and writes go on, also when it comes back', async () => {
    await create('t');
    succeeded(await merge('t', 3));
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'dev' }));
    succeeded(await service.post('/v1/table/t/tags/create', { tag: 'v', version: 1 }));
    const { location } = succeeded(await service.post('/v1/table/t/describe'));
    assert.deepEqual(succeeded(await rename('t', { new_table_name: 'u', new_namespace_id: ['archive'] })), {});
    refused(await service.post('/v1/table/t/describe'), 404, 4);
    refused(await merge('t', 4), 404, 4);
    const described = succeeded(await service.post('/v1/table/archive$u/describe', { tag: 'v' }));
    assert.deepEqual([described.location, described.version, described.table], [location, 1, 'u']);
    assert.equal(succeeded(await merge('archive$u', 4)).version, 3);
    assert.equal(succeeded(await merge('archive$u', 4)).num_updated_rows, 1);
    assert.ok('dev' in (succeeded(await service.post('/v1/table/archive$u/branches/list')).branches as object));
    succeeded(await rename('archive$u', { new_table_name: 't', new_namespace: [] }));
    const again = succeeded(await merge('t', 4));
    assert.deepEqual([again.num_updated_rows, again.num_inserted_rows, await count('t')], [1, 0, 4]);
  });

  test('a retry with its key gets its first answer after a rename, and is not applied again (P6)', async () => {
    await create('keyed');
    const key = { 'idempotency-key': 'k-1' };
    const first = succeeded(await merge('keyed', 9, key));
    succeeded(await rename('keyed', { new_table_name: 'keyed2' }));
    const retried = succeeded(await merge('keyed', 9, key));
    assert.deepEqual([retried.version, retried.transaction_id], [first.version, first.transaction_id]);
    assert.equal(await count('keyed2'), 3);
    succeeded(await service.post(`/v1/transaction/${String(first.transaction_id)}/describe`));
  });

  test('the old name is free: a new table of that name has files of its own (P1)', async () => {
    await create('reused');
    succeeded(await rename('reused', { new_table_name: 'renamed' }));
    await create('reused');
    succeeded(await service.post('/v1/table/reused/drop'));
    assert.equal(await count('renamed'), 2);
  });

  const mergedInto = async (names: readonly string[], row: number) => {
    const statuses = (await Promise.all(names.map((name) => merge(name, row)))).map(({ status }) => status);
    for (const status of statuses) assert.ok([200, 404, 503].includes(status), String(status));
    return statuses.includes(200);
  };

  test('merges during renames go to the table or are refused, and none is lost or doubled (P2)', async () => {
    await create('a0');
    const acknowledged: number[] = [];
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let i = 0; i < 6; i++) {
        const id = 100 + 10 * writer + i;
        while (!(await mergedInto(['a0', 'a1'], id)));
        acknowledged.push(id);
      }
    });
    const renames = (async () => {
      for (let i = 0; i < 6; i++) succeeded(await rename(`a${i % 2}`, { new_table_name: `a${(i + 1) % 2}` }));
    })();
    await Promise.all([...writers, renames]);
    assert.equal(await count('a0'), 2 + acknowledged.length);
  });

  test('what is missing or taken is refused by name', async () => {
    await create('here');
    await create('taken');
    refused(await rename('none', { new_table_name: 'x' }), 404, 4);
    refused(await rename('here', { new_table_name: 'taken' }), 409, 5);
    refused(await rename('here', { new_table_name: 'x', new_namespace_id: ['none'] }), 404, 1);
    for (const name of ['', '.', 'a\u0000b', 'x'.repeat(256)]) {
      refused(await rename('here', { new_table_name: name }), 400, 13);
    }
    refused(
      await rename('here', { new_table_name: 'x', new_namespace_id: Array.from({ length: 32 }, () => 'n') }),
      400,
      13,
    );
    refused(await rename('here', {}), 400, 13, /new_table_name/);
  });

  test('both names need the right, and who lacks it learns nothing (P9)', async () => {
    await create('kept');
    await create('archive$known');
    const [archivist, keeper] = [await as('archivist'), await as('keeper')];
    const intoArchive = { new_table_name: 'x', new_namespace_id: ['archive'] };
    for (const id of ['kept', 'none']) refused(await rename(id, intoArchive, archivist), 403, 15, /RenameTable/);
    for (const name of ['known', 'unknown']) {
      refused(await rename('kept', { ...intoArchive, new_table_name: name }, keeper), 403, 15);
    }
    succeeded(await rename('archive$known', intoArchive, archivist));
  });

  test('the audit record has both names', async () => {
    await create('audited');
    succeeded(await rename('audited', { new_table_name: 'a$b' }));
    const records = service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    const { table, newTable, actions, decision } =
      records.findLast(({ route }) => route === '/v1/table/:id/rename') ?? {};
    const expected = { table: 'audited', newTable: 'a%24b', actions: ['RenameTable'], decision: 'allowed' };
    assert.deepEqual({ table, newTable, actions, decision }, expected);
  });
});
