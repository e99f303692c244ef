import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleSchema, peopleTable, person } from './people.ts';

const [ann, bob] = [person(1, 'ann', 1), person(2, 'bob', 2)];

describe('the LanceDB SDK works with namespaces', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service);
  });

  test('a table in a nested namespace lies in a nested folder', async () => {
    await database.createNamespace(['eu']);
    await database.createNamespace(['eu', 'prod']);
    const people = await database.createTable('people', peopleTable([ann]), ['eu', 'prod']);
    await people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute([bob]);
    const opened = await database.openTable('people', ['eu', 'prod']);
    assert.equal(await opened.countRows(), 2);
    const direct = await openDirectly(service, 'people', { namespace: ['eu', 'prod'] });
    assert.deepEqual(await rowsInOrder(direct, 'id'), [ann, bob]);
    assert.deepEqual(await database.tableNames(['eu', 'prod']), ['people']);
    assert.deepEqual((await database.listTables(['eu', 'prod'])).tables, ['people']);
    assert.deepEqual((await database.listTables(['eu'])).tables, []);
    await database.dropTable('people', ['eu', 'prod']);
    assert.deepEqual(await database.tableNames(['eu', 'prod']), []);
  });

  test('one name in two namespaces is two tables', async () => {
    await database.createNamespace(['left']);
    await database.createNamespace(['right']);
    await database.createTable('twin', peopleTable([ann]), ['left']);
    await database.createTable('twin', peopleTable([ann, bob]), ['right']);
    assert.equal(await (await database.openTable('twin', ['left'])).countRows(), 1);
    assert.equal(await (await database.openTable('twin', ['right'])).countRows(), 2);
    await assert.rejects(database.openTable('twin'), refusal(/not found/));
  });

  test('modes: create minds an existing namespace, exist_ok keeps its properties, overwrite replaces them', async () => {
    const create = (mode: 'create' | 'exist_ok' | 'overwrite', owner: string) =>
      database.createNamespace(['modes'], { mode, properties: { owner } });
    const owner = async () => (await database.describeNamespace(['modes'])).properties?.owner;
    await create('create', 'first');
    assert.equal(await owner(), 'first');
    await assert.rejects(create('create', 'second'), refusal(/409/, /modes/));
    await create('exist_ok', 'second');
    assert.equal(await owner(), 'first');
    await create('overwrite', 'third');
    assert.equal(await owner(), 'third');
  });

  test('namespaces are listed under their parent, page by page', async () => {
    for (const path of [['list'], ['list', 'a'], ['list', 'b'], ['list', 'c'], ['list', 'a', 'inner']])
      await database.createNamespace(path);
    const first = await database.listNamespaces(['list'], { limit: 2 });
    assert.deepEqual(first.namespaces, ['a', 'b']);
    const second = await database.listNamespaces(['list'], { limit: 2, pageToken: String(first.pageToken) });
    assert.deepEqual(second.namespaces, ['c']);
    assert.equal(second.pageToken ?? undefined, undefined);
    assert.deepEqual((await database.listNamespaces(['list', 'a'])).namespaces, ['inner']);
    assert.ok((await database.listNamespaces()).namespaces.includes('list'));
  });

  test('what holds something is dropped only with cascade, and then wholly', async () => {
    await database.createNamespace(['full']);
    await database.createNamespace(['full', 'inner']);
    await database.createEmptyTable('t', peopleSchema, ['full', 'inner']);
    await assert.rejects(database.dropNamespace(['full']), refusal(/409/, /full/));
    await assert.rejects(database.dropNamespace(['full'], { behavior: 'restrict' }), refusal(/409/, /full/));
    assert.equal(await (await database.openTable('t', ['full', 'inner'])).countRows(), 0);
    await database.dropNamespace(['full'], { behavior: 'cascade' });
    await assert.rejects(database.describeNamespace(['full']), refusal(/404/, /full/));
    await assert.rejects(openDirectly(service, 't', { namespace: ['full', 'inner'] }));
  });

  test('an empty namespace is dropped; one that is not there can be skipped', async () => {
    await database.createNamespace(['empty']);
    await database.dropNamespace(['empty']);
    await assert.rejects(database.dropNamespace(['empty']), refusal(/404/, /empty/));
    await database.dropNamespace(['empty'], { mode: 'skip' });
  });

  test('nothing can be made in a namespace that is not there', async () => {
    await assert.rejects(database.createNamespace(['nowhere', 'inner']), refusal(/404/, /nowhere/));
    await assert.rejects(database.createTable('t', peopleTable([ann]), ['nowhere']), refusal(/404/, /nowhere/));
  });
});
