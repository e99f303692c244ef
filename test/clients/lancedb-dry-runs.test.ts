import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestService } from '#test/fixtures/service.ts';
import { allRights, connectByApiKey, connectOver, makeApiKey, refusal } from './connections.ts';
import { peopleTable, person } from './people.ts';

test('the LanceDB SDK asks for dry runs and bounds of deletions by its extra headers (P6)', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const all = await connectByApiKey(service);
  const people = await all.createTable('people', peopleTable([person(1, 'ann', 1), person(2, 'bob', 2)]));
  const opened = async (extraHeaders: Record<string, string>) => {
    const apiKey = await makeApiKey(service, allRights);
    return (await connectOver(service, { apiKey, clientConfig: { extraHeaders } })).openTable('people');
  };
  const dry = await opened({ 'x-lancegate-dry-run': 'true' });
  const answer = await dry
    .mergeInsert('id')
    .whenMatchedUpdateAll()
    .whenNotMatchedInsertAll()
    .execute([person(2, 'BOB', 20), person(3, 'cid', 3)]);
  assert.deepEqual([answer.numUpdatedRows, answer.numInsertedRows, answer.version], [1, 1, 1]);
  assert.equal((await dry.delete('true')).version, 1);
  await assert.rejects(dry.add([person(9, 'eve', 9)]), refusal(/this operation has no dry run/));
  const bounded = await opened({ 'x-lancegate-max-deleted': '1' });
  await assert.rejects(bounded.delete('true'), refusal(/2 rows would be deleted, and 1 may be/));
  assert.deepEqual([await people.countRows(), await people.version()], [2, 1]);
  await bounded.delete('id = 1');
  assert.equal(await people.countRows(), 1);
});
