import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

test('renameTable of the LanceDB SDK, within a namespace and into another', async (t) => {
  const service = await startTestService(t.after.bind(t));
  const database = await connectByApiKey(service);
  const ann = person(1, 'ann', 1);
  await database.createTable('people', peopleTable([ann]));
  await database.createNamespace(['prod']);
  await database.renameTable('people', 'folks');
  assert.deepEqual(await database.tableNames(), ['folks']);
  await database.renameTable('folks', 'crew', { newNamespacePath: ['prod'] });
  assert.deepEqual([await database.tableNames(), await database.tableNames(['prod'])], [[], ['crew']]);
  const crew = await database.openTable('crew', ['prod']);
  await crew
    .mergeInsert('id')
    .whenNotMatchedInsertAll()
    .execute([person(2, 'bob', 2)]);
  assert.equal((await rowsInOrder(await openDirectly(service, 'people'), 'id')).length, 2, 'the folder stays');
  await assert.rejects(database.renameTable('none', 'x'), refusal(/not found|404/));
});
