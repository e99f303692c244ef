import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const [ann, bob, cid] = [person(1, 'ann', 1), person(2, 'bob', 2), person(3, 'cid', 3)];

describe('the LanceDB SDK works on branches', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service);
  });

  const makePeople = (name: string) => database.createTable(name, peopleTable([ann, bob]));
  const stored = async (name: string, branch?: string) =>
    rowsInOrder(await openDirectly(service, name, branch === undefined ? {} : { branch }), 'id');

  test('a merge on a branch changes the branch and leaves main alone', async () => {
    const branches = await (await makePeople('merged')).branches();
    const draft = await branches.create('draft');
    const answer = await draft
      .mergeInsert('id')
      .whenMatchedUpdateAll()
      .whenNotMatchedInsertAll()
      .execute([person(2, 'BOB', 20), cid]);
    assert.deepEqual([answer.numUpdatedRows, answer.numInsertedRows], [1, 1]);
    assert.equal(await draft.countRows(), 3);
    assert.deepEqual(await stored('merged', 'draft'), [ann, person(2, 'BOB', 20), cid]);
    assert.deepEqual(await stored('merged'), [ann, bob]);
  });

  test('the version of a merge is the branch’s own (P5)', async () => {
    const main = await makePeople('versions');
    const draft = await (await main.branches()).create('draft');
    const first = await draft.mergeInsert('id').whenNotMatchedInsertAll().execute([cid]);
    assert.equal(await draft.version(), first.version);
    assert.equal(await main.version(), 1);
  });

  test('branches are listed with where they began, and checked out by name', async () => {
    const main = await makePeople('listed');
    const branches = await main.branches();
    await main.mergeInsert('id').whenNotMatchedInsertAll().execute([cid]);
    await branches.create('from-latest');
    await branches.create('from/first', undefined, 1);
    const listed = await branches.list();
    assert.deepEqual(Object.keys(listed).sort(), ['from-latest', 'from/first']);
    assert.equal(listed['from-latest']?.parentVersion, 2);
    assert.equal(listed['from/first']?.parentVersion, 1);
    assert.equal(await (await branches.checkout('from-latest')).countRows(), 3);
    assert.equal(await (await branches.checkout('from/first')).countRows(), 2);
  });

  test('a branch grows from a branch', async () => {
    const branches = await (await makePeople('grown')).branches();
    const draft = await branches.create('draft');
    await draft.mergeInsert('id').whenNotMatchedInsertAll().execute([cid]);
    const second = await branches.create('second', 'draft');
    assert.equal(await second.countRows(), 3);
    assert.equal((await branches.list()).second?.parentBranch, 'draft');
  });

  test('a table opens on a branch', async () => {
    const draft = await (await (await makePeople('opened')).branches()).create('draft');
    await draft.mergeInsert('id').whenNotMatchedInsertAll().execute([cid]);
    const opened = await database.openTable('opened', [], { branch: 'draft' });
    assert.equal(await opened.countRows("name = 'cid'"), 1);
  });

  test('a deleted branch is gone; main stays', async () => {
    const branches = await (await makePeople('deleted')).branches();
    const draft = await branches.create('draft');
    await branches.delete('draft');
    assert.deepEqual(await branches.list(), {});
    await assert.rejects(branches.checkout('draft'), refusal(/branch: draft\)' was not found/));
    await assert.rejects(draft.mergeInsert('id').whenNotMatchedInsertAll().execute([cid]), refusal(/not found/));
    assert.deepEqual(await stored('deleted'), [ann, bob]);
  });

  test('a branch is made once, from a version that is there, under a name that can be one', async () => {
    const branches = await (await makePeople('refused')).branches();
    await branches.create('draft');
    await assert.rejects(branches.create('draft'), refusal(/already exists/));
    await assert.rejects(branches.create('late', undefined, 99), refusal(/version 99.* was not found/));
    await assert.rejects(branches.create('orphan', 'nowhere'), refusal(/branch 'nowhere'.* was not found/));
    await assert.rejects(branches.create('a..b'), refusal(/name: a branch name must not contain/));
    await assert.rejects(branches.create('main'), refusal(/name: a branch name other than main/));
    await assert.rejects(branches.delete('nowhere'), refusal(/branch: nowhere\)' was not found/));
    assert.deepEqual(Object.keys(await branches.list()), ['draft']);
  });
});
