import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection, Table } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const ann = person(1, 'ann', 1);

/** What the SDK can ask of a server and this service does not offer. It must not sound like "no such table". */
const notOffered: Readonly<Record<string, (table: Table, database: Connection) => Promise<unknown>>> = {
  'branches diff': async (table) => (await table.branches()).diff('draft'),
};

describe('what the LanceDB SDK asks in vain is refused at once, and by name', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  let people: Table;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service);
    people = await database.createTable('people', peopleTable([ann]));
  });

  for (const [name, ask] of Object.entries(notOffered)) {
    test(`${name}: 406, and nothing changes`, async () => {
      await assert.rejects(ask(people, database), refusal(/406/, /does not offer the operation/));
      assert.deepEqual(await rowsInOrder(await openDirectly(service, 'people'), 'id'), [ann]);
    });
  }

  test('reading an earlier version is offered: its number, its schema and its count', async () => {
    await database.createTable('grown', peopleTable([ann]));
    const grown = await database.openTable('grown');
    await grown
      .mergeInsert('id')
      .whenNotMatchedInsertAll()
      .execute([person(2, 'bob', 2)]);
    await grown.checkout(1);
    assert.deepEqual([await grown.version(), await grown.countRows()], [1, 1]);
    await assert.rejects(grown.checkout(99), refusal(/version: 99/, /not found/));
    await grown.checkoutLatest();
    assert.deepEqual([await grown.version(), await grown.countRows()], [2, 2]);
  });
});
