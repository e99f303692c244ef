import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { startTestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

test('cloneTable of the LanceDB SDK makes what plain LanceDB makes, at each version and tag', async (t) => {
  const service = await startTestService(t.after.bind(t));
  const database = await connectByApiKey(service);
  const people = await database.createTable('people', peopleTable([person(1, 'ann', 1)]));
  for (const id of [2, 3]) {
    await people
      .mergeInsert('id')
      .whenNotMatchedInsertAll()
      .execute([person(id, 'bob', id)]);
  }
  await (await people.tags()).create('second', 2);
  const location = `${service.tablesFolder}/people.lance`;
  const embedded = await connect(service.tablesFolder);
  const cases = { newest: {}, first: { sourceVersion: 1 }, tagged: { sourceTag: 'second' } };
  for (const [name, options] of Object.entries(cases)) {
    const clone = await database.cloneTable(name, location, { isShallow: true, ...options });
    const expected = await embedded.cloneTable(`embedded-${name}`, location, { isShallow: true, ...options });
    assert.equal(await clone.version(), await expected.version());
    const stored = await rowsInOrder(await openDirectly(service, name), 'id');
    assert.deepEqual(stored, await rowsInOrder(expected, 'id'));
  }
});
