import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type Connection, connect, type Table } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { connectByApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const everybody = [person(1, 'ann', 1), person(2, 'bob', 2), person(3, 'cid', 3)];

const upsert = (table: Table, ...rows: readonly ReturnType<typeof person>[]) =>
  table
    .mergeInsert('id')
    .whenMatchedUpdateAll()
    .whenNotMatchedInsertAll()
    .execute([...rows]);

/** Programs that change the columns of a table of people, or its versions. */
const programs: Readonly<Record<string, (table: Table) => Promise<unknown>>> = {
  'addColumns by expressions': (table) =>
    table.addColumns([
      { name: 'double', valueSql: 'score * 2' },
      { name: 'shout', valueSql: "upper(name) || '!'" },
    ]),
  'alterColumns: another name': (table) => table.alterColumns([{ path: 'name', rename: 'label' }]),
  'alterColumns: another type': (table) =>
    table.alterColumns([
      { path: 'score', dataType: 'float' },
      { path: 'id', dataType: 'int64' },
    ]),
  'alterColumns: no NULL': (table) => table.alterColumns([{ path: 'id', nullable: false }]),
  dropColumns: (table) => table.dropColumns(['name']),
  updateFieldMetadata: async (table) => {
    await table.updateFieldMetadata([{ path: 'name', metadata: { unit: 'word', other: 'x' } }]);
    return table.updateFieldMetadata([
      { path: 'name', metadata: { other: null } },
      { path: 'id', metadata: { a: 'b' }, replace: true },
    ]);
  },
  restore: async (table) => {
    await upsert(table, person(2, 'BOB', 20), person(4, 'dan', 4));
    await table.dropColumns(['score']);
    await table.checkout(2);
    await table.restore();
    await upsert(table, person(5, 'eve', 5));
  },
  'columns that come and go between upserts': async (table) => {
    await upsert(table, person(1, 'Ann', 10), person(4, 'dan', 4));
    await table.addColumns([{ name: 'double', valueSql: 'score * 2' }]);
    await upsert(table, person(2, 'Bob', 20), person(5, 'eve', 5));
    await table.alterColumns([{ path: 'double', rename: 'twice' }]);
    await table.dropColumns(['twice']);
    await upsert(table, person(3, 'Cid', 30), person(6, 'fay', 6));
  },
};

/** What `setUnenforcedPrimaryKey` of the SDKs from 0.41 sends. That of 0.39 refuses itself. */
const primaryKey = [
  {
    path: 'id',
    metadata: {
      'lance-schema:unenforced-primary-key:position': '1',
      'lance-schema:unenforced-primary-key': null,
    },
  },
];

/** Every field with all that the schema says of it; the order of metadata says nothing. */
const describeSchema = async (table: Table) =>
  (await table.schema()).fields.map(({ name, type, nullable, metadata }) => ({
    name,
    type: String(type),
    nullable,
    metadata: [...metadata].sort(),
  }));

describe('the LanceDB SDK changes columns through the service as in an embedded database', () => {
  const later = afterSuite();
  let service: TestService;
  let remote: Connection;
  let embedded: Connection;
  let tables = 0;
  before(async () => {
    service = await startTestService(later);
    remote = await connectByApiKey(service, 'lancegate:write');
    embedded = await connect(join(temporaryFolder(later), 'embedded'));
  });
  const both = async (): Promise<readonly [Table, Table]> => {
    const name = `people_${++tables}`;
    const rows = peopleTable(everybody);
    return [await remote.createTable(name, rows), await embedded.createTable(name, rows)];
  };

  for (const [name, program] of Object.entries(programs)) {
    test(name, async () => {
      const [here, there] = await both();
      const [result, expected] = [await program(here), await program(there)];
      const stored = await openDirectly(service, here.name);
      assert.deepEqual(result, expected, 'the same answer');
      assert.deepEqual(await describeSchema(stored), await describeSchema(there));
      assert.deepEqual(await rowsInOrder(stored, 'id'), await rowsInOrder(there, 'id'));
      assert.equal(await stored.version(), await there.version());
      await here.checkoutLatest();
      assert.deepEqual(await describeSchema(here), await describeSchema(there), 'as the SDK sees it');
    });
  }

  test('a primary key that is declared by metadata is that of setUnenforcedPrimaryKey, and upserts go on (P2)', async () => {
    const [here, there] = await both();
    for (const table of [here, there]) await table.alterColumns([{ path: 'id', nullable: false }]);
    await here.updateFieldMetadata(primaryKey);
    await there.setUnenforcedPrimaryKey('id');
    for (const table of [here, there]) await upsert(table, person(2, 'BOB', 20), person(4, 'dan', 4));
    const stored = await openDirectly(service, here.name);
    assert.deepEqual(await describeSchema(stored), await describeSchema(there));
    assert.deepEqual(await rowsInOrder(stored, 'id'), await rowsInOrder(there, 'id'));
  });

  test('what cannot be done is refused by name, and never taken for a missing table', async () => {
    const [people] = await both();
    const asks: readonly (readonly [() => Promise<unknown>, RegExp])[] = [
      [() => people.addColumns([{ name: 'id', valueSql: '1' }]), /id exists in the table/],
      [() => people.addColumns([{ name: 'x', valueSql: 'none + 1' }]), /none/],
      [() => people.alterColumns([{ path: 'none', rename: 'x' }]), /no column none/],
      [() => people.alterColumns([{ path: 'name', dataType: 'int64' }]), /does not cast/],
      [() => people.dropColumns(['none']), /no column none/],
      [() => people.dropColumns(['id', 'name', 'score']), /at least one column/],
      [() => people.updateFieldMetadata([{ path: 'none', metadata: {} }]), /no column none/],
      [() => people.updateFieldMetadata(primaryKey), /must not be nullable/],
    ];
    for (const [ask, says] of asks) await assert.rejects(ask(), refusal(says));
    await assert.rejects(people.checkout(9), refusal(/version: 9/));
    assert.equal(await (await openDirectly(service, people.name)).version(), 1);
  });

  test('columns of a branch are its own', async () => {
    const [people] = await both();
    const draft = await (await people.branches()).create('draft');
    await draft.addColumns([{ name: 'double', valueSql: 'score * 2' }]);
    await draft.dropColumns(['name']);
    const stored = await openDirectly(service, people.name, { branch: 'draft' });
    assert.deepEqual((await stored.schema()).names, ['id', 'score', 'double']);
    assert.deepEqual((await (await openDirectly(service, people.name)).schema()).names, ['id', 'name', 'score']);
  });
});
