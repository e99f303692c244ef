import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection, Table } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal } from './connections.ts';
import { peopleTable, person } from './people.ts';

describe('tags through the LanceDB SDK are those of plain LanceDB', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  let people: Table;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service, 'lancegate:write');
    people = await database.createTable('people', peopleTable([person(1, 'ann', 1)]));
    for (const id of [2, 3]) await insert(people, id);
  });
  const insert = (table: Table, id: number) =>
    table
      .mergeInsert('id')
      .whenNotMatchedInsertAll()
      .execute([person(id, 'bob', id)]);
  const facts = async (table: Table) =>
    Object.entries(await (await table.tags()).list()).map(([name, { version, manifestSize }]) => ({
      name,
      version,
      manifestSize,
    }));

  test('create, getVersion, list, update and delete', async () => {
    const tags = await people.tags();
    await tags.create('first', 1);
    await tags.create('second', 2);
    assert.equal(await tags.getVersion('first'), 1);
    const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
    const listed = (await facts(people)).sort(byName);
    assert.deepEqual(
      listed.map(({ name, version }) => [name, version]),
      [
        ['first', 1],
        ['second', 2],
      ],
    );
    assert.deepEqual(listed, (await facts(await openDirectly(service, 'people'))).sort(byName));
    await tags.update('first', 3);
    assert.equal(await tags.getVersion('first'), 3);
    await tags.delete('first');
    await assert.rejects(tags.getVersion('first'), refusal(/not found/i));
    // At once: a 409 would be repeated, and end as "Hit retry limit".
    await assert.rejects(tags.create('second', 1), refusal(/400/, /'second' already/));
    await assert.rejects(tags.create('third', 99), refusal(/not found/));
  });

  test('checkout of a tag shows its version', async () => {
    const table = await database.openTable('people');
    await table.checkout('second');
    assert.deepEqual([await table.version(), await table.countRows()], [2, 2]);
    await table.checkoutLatest();
    assert.equal(await table.countRows(), 3);
  });

  test('a tag that was made on a branch is of that branch', async () => {
    const draft = await (await people.branches()).create('draft', undefined, 2);
    await insert(draft, 9);
    const version = await draft.version();
    await (await draft.tags()).create('drafted', version);
    const direct = await openDirectly(service, 'people');
    await direct.checkout('drafted');
    assert.deepEqual((await direct.query().toArray()).map(({ id }) => Number(id)).sort(), [1, 2, 9]);
  });
});
