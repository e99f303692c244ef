/** `index/list`, `stats` and `prewarm`: what covers a branch, to clients that may read it. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// Reads main and no branch.
permit (principal == Principal::"guest", action in Action::"read", resource);
forbid (principal == Principal::"guest", action, resource) when { context.branch != "main" };
`;

describe('indexes of a table', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/table/t/create', people([1, 2, 3], 'x')));
    const direct = await (await connect(service.tablesFolder)).openTable('t');
    for (const column of ['id', 'name']) await direct.createIndex(column);
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'dev' }));
    succeeded(await service.post('/v1/table/t/merge_insert?on=id&branch=dev', people([7], 'y')));
    succeeded(await service.post('/v1/table/declared/declare', {}));
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  const list = async (body: object, query = '') => {
    const { indexes, page_token } = succeeded(await service.post(`/v1/table/t/index/list${query}`, body));
    return { indexes: indexes as Record<string, unknown>[], page_token };
  };

  test('a list has what the specification requires, in pages, of a branch and a version', async () => {
    const { indexes } = await list({});
    assert.deepEqual(
      indexes.map(({ index_name, columns, status, index_type, num_unindexed_rows }) => [
        ...[index_name, columns, status, index_type, num_unindexed_rows],
      ]),
      [
        ['id_idx', ['id'], 'done', 'BTREE', 0],
        ['name_idx', ['name'], 'done', 'BTREE', 0],
      ],
    );
    for (const { index_uuid, created_at, size_bytes } of indexes) {
      assert.match(String(index_uuid), /^[0-9a-f-]{36}$/);
      assert.ok(Date.parse(String(created_at)) > 0 && Number(size_bytes) > 0);
    }
    const first = await list({ limit: 1 });
    assert.deepEqual([first.indexes.length, first.page_token], [1, 'id_idx']);
    const second = await list({}, '?limit=1&page_token=id_idx');
    assert.deepEqual(
      [second.indexes.map(({ index_name }) => index_name), second.page_token],
      [['name_idx'], undefined],
    );
    assert.deepEqual((await list({ version: 1 })).indexes, []);
    assert.deepEqual(
      (await list({ branch: 'dev' })).indexes.map(({ num_unindexed_rows }) => num_unindexed_rows),
      [1, 1],
    );
    refused(await service.post('/v1/table/t/index/list', { limit: 0 }), 400, 13, /limit/);
  });

  test('statistics are of the branch and the version that are asked for', async () => {
    const stats = async (body: object) => succeeded(await service.post('/v1/table/t/index/id_idx/stats', body));
    const expected = { num_indexed_rows: 3, num_unindexed_rows: 0, index_type: 'BTREE', num_indices: 1 };
    assert.deepEqual(await stats({ index_name: 'id_idx' }), expected);
    assert.deepEqual(await stats({ branch: 'dev' }), { ...expected, num_unindexed_rows: 1 });
    refused(await service.post('/v1/table/t/index/id_idx/stats', { version: 1 }), 404, 6);
    refused(await service.post('/v1/table/t/index/id_idx/stats', { index_name: 'name_idx' }), 400, 13, /index_name/);
  });

  for (const path of ['index/list', 'index/id_idx/stats', 'index/id_idx/prewarm']) {
    test(`${path} tells of a table or a branch only to those that may read it (P9)`, async () => {
      const guest = await as('guest');
      succeeded(await service.post(`/v1/table/t/${path}`, undefined, guest));
      for (const branch of ['dev', 'none']) {
        refused(await service.post(`/v1/table/t/${path}`, { branch }, guest), 403, 15);
      }
      const stranger = await as('stranger');
      for (const table of ['t', 'none']) {
        refused(await service.post(`/v1/table/${table}/${path}`, undefined, stranger), 403, 15);
      }
    });

    test(`${path} names what is not there: a table, a branch, an index, also of a declared table`, async () => {
      refused(await service.post(`/v1/table/none/${path}`), 404, 4);
      refused(await service.post(`/v1/table/t/${path}`, { branch: 'none' }), 404, 22);
      const ofDeclared = await service.post(`/v1/table/declared/${path}`);
      if (path === 'index/list') assert.deepEqual(succeeded(ofDeclared).indexes, []);
      else refused(ofDeclared, 400, 19, /declared/);
      const another = path.replace('id_idx', 'none');
      if (another !== path) refused(await service.post(`/v1/table/t/${another}`), 404, 6, /no index 'none'/);
    });
  }

  test('each request has an audit record with its action and its branch', async () => {
    succeeded(await service.post('/v1/table/t/index/id_idx/prewarm?branch=dev'));
    const records = service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    const { actions, decision, table, branch } =
      records.findLast(({ route }) => route === '/v1/table/:id/index/:index/prewarm') ?? {};
    const expected = { actions: ['PrewarmTableIndex'], decision: 'allowed', table: 't', branch: 'dev' };
    assert.deepEqual({ actions, decision, table, branch }, expected);
  });
});
