import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection, Table } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly } from './connections.ts';
import { peopleTable, person } from './people.ts';

describe('the LanceDB SDK sees through the service what plain LanceDB sees on the storage', () => {
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

  test('listVersions: their numbers and times, the newest last', async () => {
    const direct = await (await openDirectly(service, 'people')).listVersions();
    const listed = await people.listVersions();
    const facts = (versions: typeof listed) => versions.map(({ version, timestamp }) => [version, Number(timestamp)]);
    assert.deepEqual(
      listed.map(({ version }) => version),
      [1, 2, 3],
    );
    const toMs = ([version, at]: number[]) => [version, new Date(at ?? 0).getTime()];
    assert.deepEqual(facts(listed).map(toMs), facts(direct).map(toMs));
  });

  test('listVersions of a branch: its own', async () => {
    const draft = await (await people.branches()).create('draft', undefined, 2);
    await insert(draft, 9);
    const direct = await (await openDirectly(service, 'people', { branch: 'draft' })).listVersions();
    const versions = (await draft.listVersions()).map(({ version }) => version);
    assert.deepEqual(
      versions,
      direct.map(({ version }) => version),
    );
    assert.equal(versions.at(-1), await draft.version());
  });

  test('stats: all of them', async () => {
    assert.deepEqual(await people.stats(), await (await openDirectly(service, 'people')).stats());
    const indexed = await openDirectly(service, 'people');
    await indexed.createIndex('id');
    assert.equal((await people.stats()).numIndices, 1);
  });
});
