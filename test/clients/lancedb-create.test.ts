import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection, Data, Table } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleSchema, peopleTable, person } from './people.ts';

const ann = person(1, 'ann', 0.5);
const bob = person(2, 'bob', null);

describe('the LanceDB SDK creates, opens, lists and drops tables', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service);
  });
  const stored = async (name: string) => rowsInOrder(await openDirectly(service, name), 'id');

  test('a table it creates lies on the storage root with every row (P1, P3)', async () => {
    const created = await database.createTable('created', peopleTable([ann, bob]));
    assert.equal(created.name, 'created');
    assert.deepEqual(await stored('created'), [ann, bob]);
  });

  test('plain records become a table as well', async () => {
    await database.createTable('records', [
      { id: 1, text: 'a', tags: ['x', 'y'] },
      { id: 2, text: 'b', tags: [] },
    ]);
    const rows = await rowsInOrder(await openDirectly(service, 'records'), 'id');
    assert.deepEqual(JSON.parse(JSON.stringify(rows)), [
      { id: 1, text: 'a', tags: ['x', 'y'] },
      { id: 2, text: 'b', tags: [] },
    ]);
  });

  test('a table is created once: the second create is refused because it exists, in words the SDK knows', async () => {
    await database.createTable('once', peopleTable([ann]));
    await assert.rejects(database.createTable('once', peopleTable([bob])), refusal(/^Table 'once' already exists$/));
    assert.deepEqual(await stored('once'), [ann]);
  });

  test('mode overwrite replaces rows and schema', async () => {
    await database.createTable('replaced', peopleTable([ann]));
    await database.createTable('replaced', peopleTable([bob], ['id', 'name']), { mode: 'overwrite' });
    const names = (await (await database.openTable('replaced')).schema()).names;
    assert.deepEqual(names, ['id', 'name']);
    assert.equal(await (await database.openTable('replaced')).countRows(), 1);
  });

  test('mode overwrite creates a table that is not there', async () => {
    await database.createTable('overwritten_nothing', peopleTable([ann]), { mode: 'overwrite' });
    assert.deepEqual(await stored('overwritten_nothing'), [ann]);
  });

  test('existOk opens a table that is there and leaves its rows alone', async () => {
    await database.createTable('kept', peopleTable([ann]), { existOk: true });
    const opened = await database.createTable('kept', peopleTable([bob]), { existOk: true });
    assert.equal(await opened.countRows(), 1);
    assert.deepEqual(await stored('kept'), [ann]);
  });

  test('an empty table has its schema, no rows, and takes rows', async () => {
    const empty = await database.createEmptyTable('empty', peopleSchema);
    assert.equal(await empty.countRows(), 0);
    assert.deepEqual((await empty.schema()).fields.map(String), peopleSchema.fields.map(String));
    await empty.mergeInsert('id').whenNotMatchedInsertAll().execute([ann]);
    assert.deepEqual(await stored('empty'), [ann]);
  });

  test('rows are counted, all and those that a filter lets through', async () => {
    const table = await database.createTable('counted', peopleTable([ann, bob, person(3, 'cid', 1)]));
    assert.equal(await table.countRows(), 3);
    assert.equal(await table.countRows("name = 'ann' or score > 0.9"), 2);
    await assert.rejects(table.countRows('no_such_column = 1'), refusal(/400/, /no_such_column/));
  });

  test('a table knows its version', async () => {
    const table = await database.createTable('versioned', peopleTable([ann]));
    assert.equal(await table.version(), 1);
    const { version } = await table.mergeInsert('id').whenNotMatchedInsertAll().execute([bob]);
    assert.equal(await table.version(), version);
    assert.equal(await (await openDirectly(service, 'versioned')).version(), version);
  });

  test('a table that is not there cannot be opened or dropped, and the SDK says which', async () => {
    await assert.rejects(database.openTable('nowhere'), refusal(/Table 'nowhere' was not found/));
    await assert.rejects(database.dropTable('nowhere'), refusal(/404/, /nowhere/));
  });

  const declared = async (name: string, schema?: unknown) => {
    const properties = schema === undefined ? {} : { 'lancegate.schema': JSON.stringify(schema) };
    assert.equal((await service.post(`/v1/table/${name}/declare`, { properties })).status, 200);
    return database.openTable(name);
  };
  const readsAsEmpty = async (opened: Table, columns: readonly string[]) => {
    assert.deepEqual((await opened.schema()).names, columns);
    assert.deepEqual([await opened.version(), await opened.countRows(), await opened.countRows('id > 0')], [0, 0, 0]);
    assert.deepEqual([await opened.query().toArray(), await opened.listIndices()], [[], []]);
    assert.deepEqual(await opened.search([1, 2]).toArray(), []);
  };

  test('a table that is only declared has no rows, takes merges of Arrow, and can be created', async () => {
    const opened = await declared('declared');
    await readsAsEmpty(opened, []);
    // The SDK looks for the columns of plain records in the schema, before it sends anything.
    const merge = (rows: Data) =>
      opened.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(rows);
    await assert.rejects(merge([ann]), refusal(/Found field not in schema: id/));
    await merge(peopleTable([ann]));
    assert.deepEqual(await stored('declared'), [ann]);
    await declared('to_create');
    const created = await database.createTable('to_create', peopleTable([ann]), { existOk: true });
    await created.mergeInsert('id').whenNotMatchedInsertAll().execute([bob]);
    assert.deepEqual(await stored('to_create'), [ann, bob]);
  });

  test('a table that is declared with columns takes records, by merges and by adds', async () => {
    const type = (name: string, type: string) => ({ name, nullable: name !== 'id', type: { type } });
    const schema = { fields: [type('id', 'int32'), type('name', 'string'), type('score', 'double')] };
    const merged = await declared('declared_merged', schema);
    await readsAsEmpty(merged, ['id', 'name', 'score']);
    const upsert = () => merged.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();
    assert.equal((await upsert().execute([ann, bob])).numInsertedRows, 2);
    assert.equal((await upsert().execute([ann])).numUpdatedRows, 1);
    assert.deepEqual(await stored('declared_merged'), [ann, bob]);
    const added = await declared('declared_added', schema);
    await added.add([ann]);
    await added.add(peopleTable([bob]));
    assert.deepEqual(await stored('declared_added'), [ann, bob]);
  });

  test('a schema that cannot be stored is refused, and the column is named', async () => {
    const { Field, IntervalYearMonth, Schema } = await import('apache-arrow');
    const unstorable = new Schema([new Field('every', new IntervalYearMonth())]);
    await assert.rejects(database.createEmptyTable('unstorable', unstorable), refusal(/every/));
  });

  test('a dropped table is gone, from listings and from the storage root, and its name is free again', async () => {
    await database.createTable('dropped', peopleTable([ann]));
    await database.dropTable('dropped');
    assert.ok(!(await database.tableNames({ limit: 100 })).includes('dropped'));
    await assert.rejects(openDirectly(service, 'dropped'));
    const again = await database.createTable('dropped', peopleTable([bob]));
    assert.equal(await again.countRows(), 1);
  });
});

describe('the LanceDB SDK lists tables page by page', () => {
  const later = afterSuite();
  const names = ['a', 'b', 'c', 'd', 'e'];
  let database: Connection;
  before(async () => {
    database = await connectByApiKey(await startTestService(later));
    for (const name of names) await database.createEmptyTable(name, peopleSchema);
  });

  test('tableNames in order of their names, from any name on', async () => {
    assert.deepEqual(await database.tableNames(), names);
    assert.deepEqual(await database.tableNames({ limit: 2 }), ['a', 'b']);
    assert.deepEqual(await database.tableNames({ limit: 2, startAfter: 'b' }), ['c', 'd']);
    assert.deepEqual(await database.tableNames({ startAfter: 'e' }), []);
  });

  test('listTables with tokens, each table once', async () => {
    const seen: string[] = [];
    let pageToken: string | undefined;
    let pages = 0;
    do {
      const page = await database.listTables([], { limit: 2, ...(pageToken === undefined ? {} : { pageToken }) });
      assert.ok(page.tables.length <= 2);
      seen.push(...page.tables);
      pageToken = page.pageToken ?? undefined;
      pages++;
    } while (pageToken !== undefined && pages <= names.length);
    assert.deepEqual(seen, names);
  });
});

test('the LanceDB SDK finds the service behind a base path', async (t) => {
  const service = await startTestService((clean) => t.after(clean), { BASE_PATH: '/lance' });
  const database = await connectByApiKey({ ...service, url: `${service.url}/lance` });
  const table = await database.createTable('based', peopleTable([ann]));
  await table.mergeInsert('id').whenNotMatchedInsertAll().execute([bob]);
  assert.deepEqual(await rowsInOrder(await openDirectly(service, 'based'), 'id'), [ann, bob]);
});
