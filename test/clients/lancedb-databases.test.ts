import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Connection, connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { allRights, makeApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const [ann, bob] = [person(1, 'ann', 1), person(2, 'bob', 2)];

describe('the LanceDB SDK works in databases', () => {
  const later = afterSuite();
  let service: TestService;
  let apiKey: string;
  before(async () => {
    service = await startTestService(later);
    apiKey = await makeApiKey(service, allRights);
    const root = await database('root');
    for (const name of ['one', 'two']) await root.createNamespace([name]);
  });
  const database = (name: string): Promise<Connection> =>
    connect(`db://${name}`, { hostOverride: service.url, apiKey });

  test('each has tables and namespaces of its own, and a name that is none is the root', async () => {
    const [one, two, root] = [await database('one'), await database('two'), await database('root')];
    await one.createTable('people', peopleTable([ann]));
    const people = await two.createTable('people', peopleTable([bob]));
    await people.mergeInsert('id').whenNotMatchedInsertAll().execute([ann]);
    assert.deepEqual(await rowsInOrder(await openDirectly(service, 'people', { namespace: ['one'] }), 'id'), [ann]);
    assert.deepEqual(await rowsInOrder(await openDirectly(service, 'people', { namespace: ['two'] }), 'id'), [
      ann,
      bob,
    ]);
    assert.deepEqual(await one.tableNames(), ['people']);
    assert.deepEqual(await root.tableNames(), []);
    await one.createNamespace(['inner']);
    await one.createTable('people', peopleTable([ann, bob]), ['inner']);
    assert.equal(await (await one.openTable('people', ['inner'])).countRows(), 2);
    assert.deepEqual((await one.listNamespaces()).namespaces, ['inner']);
    assert.deepEqual((await two.listNamespaces()).namespaces, []);
    await two.dropTable('people');
    assert.deepEqual(await two.tableNames(), []);
    assert.equal(await (await one.openTable('people')).countRows(), 1);
  });

  test('one that was dropped is not found, and a path behind the name is refused', async () => {
    const root = await database('root');
    await root.createNamespace(['gone']);
    const gone = await database('gone');
    await root.dropNamespace(['gone']);
    await assert.rejects(gone.tableNames(), refusal(/404/, /namespace 'gone' does not exist/));
    await assert.rejects(gone.createTable('people', peopleTable([ann])), refusal(/404/));
    await assert.rejects((await database('one/path')).tableNames(), refusal(/406/, /x-lancedb-database-prefix/));
  });
});
