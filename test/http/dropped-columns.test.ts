/** Columns that go while rows have no others: those rows stay, with NULL in what is left. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { part, transact } from './multipart-body.ts';
import { people, storedRows, stream } from './rows.ts';

describe('dropped columns', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
  });
  const ask = async (path: string, body: object) => succeeded(await service.post(`/v1/table/${path}`, body));

  test('rows that were inserted without the other columns are kept when theirs are dropped (P1)', async () => {
    await ask('inserted/create', people([1, 2], 'old'));
    await ask('inserted/create_scalar_index', { column: 'id', index_type: 'BTREE' });
    await ask('inserted/insert', stream({ name: ['new', 'newer'] }));
    await ask('inserted/delete', { predicate: "name = 'newer'" });
    const { version } = await ask('inserted/drop_columns', { columns: ['name'] });
    assert.equal(version, 5, 'one version');
    assert.equal(await ask('inserted/count_rows', {}), 3);
    assert.equal(await ask('inserted/count_rows', { predicate: 'id = 2' }), 1);
    assert.deepEqual(await storedRows(service, 'inserted'), [{ id: 1 }, { id: 2 }, { id: null }]);
    const upserted = await ask('inserted/merge_insert?on=id', stream({ id: [2, 3] }));
    assert.deepEqual([upserted.num_updated_rows, upserted.num_inserted_rows], [1, 1]);
  });

  test('the same holds among several operations, and on a branch (P1)', async () => {
    await ask('together/create', stream({ id: [1], 'a name': ['old'], b: ['b'] }));
    await ask('together/branches/create', { name: 'dev' });
    const program = [
      part('put', { operation: 'insert', source: 'rows' }),
      part('gone', { operation: 'drop_columns', columns: ['id'] }),
      part('rows', stream({ id: [7] })),
    ];
    succeeded(await transact(service, 'together', program));
    assert.equal(await ask('together/count_rows', { predicate: '`a name` IS NULL AND b IS NULL' }), 1);
    await ask('together/insert?branch=dev', stream({ b: ['other'] }));
    await ask('together/drop_columns', { branch: 'dev', columns: ['b', 'id'] });
    assert.equal(await ask('together/count_rows', { branch: 'dev', predicate: '`a name` IS NULL' }), 1);
    assert.equal(await ask('together/count_rows', { branch: 'dev' }), 2);
  });

  test('a table that only the engine commits to refuses a drop after which it could not be read (P1)', async () => {
    await ask('numbered/create', people([1], 'old'));
    const stored = await (await connect(service.tablesFolder)).openTable('numbered');
    await stored.createIndex('id', { config: Index.btree(), name: '__own' });
    await ask('numbered/insert', stream({ name: ['new'] }));
    const drop = await service.post('/v1/table/numbered/drop_columns', { columns: ['name'] });
    refused(drop, 400, 13, /^columns: some rows were inserted with no other column/);
    assert.equal(await ask('numbered/count_rows', {}), 2);
    await ask('numbered/update', { updates: [['id', '7']], predicate: 'id IS NULL' });
    await ask('numbered/drop_columns', { columns: ['name'] });
    assert.deepEqual(await storedRows(service, 'numbered'), [{ id: 1 }, { id: 7 }]);
  });
});
