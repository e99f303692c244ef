import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection, Table } from '@lancedb/lancedb';
import { Table as ArrowTable, Field, Int32, List, Schema, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import {
  allRights,
  connectByApiKey,
  connectOver,
  makeApiKey,
  openDirectly,
  type Row,
  refusal,
  rowsInOrder,
} from './connections.ts';
import { peopleTable, person } from './people.ts';

const [ann, bob, cid] = [person(1, 'ann', 1), person(2, 'bob', 2), person(3, 'cid', 3)];
const everybody = [ann, bob, cid];

describe('the LanceDB SDK merges rows', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  let tables = 0;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service);
  });

  const makePeople = (rows: readonly Row[] = everybody): Promise<Table> =>
    database.createTable(`people_${++tables}`, peopleTable(rows));
  const stored = async ({ name }: Table) => rowsInOrder(await openDirectly(service, name), 'id');
  const countsOf = ({ numInsertedRows, numUpdatedRows, numDeletedRows, numRows }: Record<string, number>) => ({
    inserted: numInsertedRows,
    updated: numUpdatedRows,
    deleted: numDeletedRows,
    rows: numRows,
  });

  test('an upsert updates what is there, inserts what is not, and counts both (P4)', async () => {
    const people = await makePeople();
    const answer = await people
      .mergeInsert('id')
      .whenMatchedUpdateAll()
      .whenNotMatchedInsertAll()
      .execute([person(2, 'BOB', 20), person(4, 'dan', 40)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 1, deleted: 0, rows: 2 });
    assert.equal(answer.numAttempts, 1);
    assert.deepEqual(await stored(people), [ann, person(2, 'BOB', 20), cid, person(4, 'dan', 40)]);
    assert.equal(
      answer.version,
      await (await openDirectly(service, people.name)).version(),
      'the version is the table’s (P5)',
    );
  });

  test('an Arrow table with columns that the table lacks brings them, by the default or the header', async () => {
    const extraHeaders = { 'x-lancegate-schema': 'extend' };
    const byHeader = await connectOver(service, {
      apiKey: await makeApiKey(service, allRights),
      clientConfig: { extraHeaders },
    });
    const [rows, more] = [peopleTable([ann]), vectorFromArray(['red', 'green'], new Utf8())];
    const byDefault = new ArrowTable(
      new Schema(rows.schema.fields, new Map([['lancegate.schema_mode', 'extend']])),
      rows.batches,
    );
    for (const [connection, name, first] of [
      [database, 'extended_by_default', byDefault],
      [byHeader, 'extended_by_header', rows],
    ] as const) {
      const table = await connection.createTable(name, first);
      const ids = vectorFromArray([1, 9], new Int32());
      const answer = await table
        .mergeInsert('id')
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute(new ArrowTable({ id: ids, colour: more }));
      assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 1, deleted: 0, rows: 2 });
      const [one, nine] = await stored(table);
      assert.deepEqual(one, { ...ann, colour: 'red' });
      assert.equal(nine?.colour, 'green');
    }
  });

  test('update only leaves new keys out', async () => {
    const people = await makePeople();
    const answer = await people
      .mergeInsert('id')
      .whenMatchedUpdateAll()
      .execute([person(2, 'BOB', 20), person(4, 'dan', 40)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 0, updated: 1, deleted: 0, rows: 1 });
    assert.deepEqual(await stored(people), [ann, person(2, 'BOB', 20), cid]);
  });

  test('insert only leaves known keys alone', async () => {
    const people = await makePeople();
    const answer = await people
      .mergeInsert('id')
      .whenNotMatchedInsertAll()
      .execute([person(2, 'BOB', 20), person(4, 'dan', 40)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 0, deleted: 0, rows: 1 });
    assert.deepEqual(await stored(people), [...everybody, person(4, 'dan', 40)]);
  });

  test('a filter over target and source decides which matched rows are updated', async () => {
    const people = await makePeople();
    const answer = await people
      .mergeInsert('id')
      .whenMatchedUpdateAll({ where: "target.score < source.score AND source.name <> 'a+b & c'" })
      .execute([person(1, 'ANN', 0), person(2, 'BOB', 20), person(3, 'a+b & c', 30)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 0, updated: 1, deleted: 0, rows: 1 });
    assert.deepEqual(await stored(people), [ann, person(2, 'BOB', 20), cid]);
  });

  test('rows that the source does not name are deleted', async () => {
    const people = await makePeople();
    const answer = await people
      .mergeInsert('id')
      .whenMatchedUpdateAll()
      .whenNotMatchedInsertAll()
      .whenNotMatchedBySourceDelete()
      .execute([person(2, 'BOB', 20), person(4, 'dan', 40)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 1, deleted: 2, rows: 2 });
    assert.deepEqual(await stored(people), [person(2, 'BOB', 20), person(4, 'dan', 40)]);
  });

  test('of the rows that the source does not name, those that a filter lets through are deleted', async () => {
    const people = await makePeople();
    const answer = await people
      .mergeInsert('id')
      .whenMatchedUpdateAll()
      .whenNotMatchedBySourceDelete({ where: "name = 'cid'" })
      .execute([person(2, 'BOB', 20)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 0, updated: 1, deleted: 1, rows: 1 });
    assert.deepEqual(await stored(people), [ann, person(2, 'BOB', 20)]);
  });

  test('a timeout that suffices changes nothing about the merge', async () => {
    const people = await makePeople();
    const merge = people.mergeInsert('id').whenNotMatchedInsertAll();
    await merge.execute([person(4, 'dan', 40)], { timeoutMs: 30_000 });
    assert.deepEqual(await stored(people), [...everybody, person(4, 'dan', 40)]);
  });

  test('a timeout that does not suffice is answered 503, and nothing is written (P6)', async () => {
    const people = await makePeople();
    const apiKey = await makeApiKey(service, allRights);
    const impatient = await connectOver(service, { apiKey, clientConfig: { retryConfig: { retries: 0 } } });
    const merge = (await impatient.openTable(people.name)).mergeInsert('id').whenNotMatchedInsertAll();
    const rows = Array.from({ length: 50_000 }, (_, i) => person(100 + i, 'late', i));
    await assert.rejects(merge.execute(peopleTable(rows), { timeoutMs: 1 }), refusal(/503/, /nothing was written/));
    assert.deepEqual(await stored(people), everybody);
  });

  test('the index can be forbidden', async () => {
    const people = await makePeople();
    const merge = people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().useIndex(false);
    const answer = await merge.execute([person(3, 'CID', 30), person(4, 'dan', 40)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 1, deleted: 0, rows: 2 });
    assert.deepEqual(await stored(people), [ann, bob, person(3, 'CID', 30), person(4, 'dan', 40)]);
  });

  test('the log-structured path is refused, and may be declined', async () => {
    const people = await makePeople();
    const merge = () => people.mergeInsert('id').whenNotMatchedInsertAll();
    await assert.rejects(
      merge()
        .useLsm(true)
        .execute([person(4, 'dan', 40)]),
      refusal(/400/, /use_lsm/),
    );
    await merge()
      .useLsm(false)
      .execute([person(4, 'dan', 40)]);
    assert.deepEqual(await stored(people), [...everybody, person(4, 'dan', 40)]);
  });

  test('rows match by two columns together', async () => {
    const people = await makePeople([person(1, 'ann', 1), person(2, 'ann', 2), person(3, 'bob', 3)]);
    const answer = await people
      .mergeInsert(['name', 'id'])
      .whenMatchedUpdateAll()
      .whenNotMatchedInsertAll()
      .execute([person(1, 'ann', 10), person(4, 'bob', 40)]);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 1, deleted: 0, rows: 2 });
    const expected = [person(1, 'ann', 10), person(2, 'ann', 2), person(3, 'bob', 3), person(4, 'bob', 40)];
    assert.deepEqual(await stored(people), expected);
  });

  test('columns that are not sent keep their values, and are NULL in new rows', async () => {
    const people = await makePeople();
    const source = peopleTable(
      [
        { id: 2, score: 20 },
        { id: 4, score: 40 },
      ],
      ['score', 'id'],
    );
    const answer = await people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(source);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 1, deleted: 0, rows: 2 });
    assert.deepEqual(await stored(people), [ann, person(2, 'bob', 20), cid, person(4, null, 40)]);
  });

  test('NULL is no key: such rows are inserted every time (P2)', async () => {
    const people = await makePeople([ann]);
    const merge = () => people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();
    const nobody = person(null, 'nobody', null);
    await merge().execute(peopleTable([nobody, nobody, person(1, 'ANN', 1)]));
    const answer = await merge().execute(peopleTable([nobody]));
    assert.deepEqual(countsOf({ ...answer }), { inserted: 1, updated: 0, deleted: 0, rows: 1 });
    assert.deepEqual(await stored(people), [nobody, nobody, nobody, person(1, 'ANN', 1)]);
  });

  test('a source without rows changes nothing and makes no version', async () => {
    const people = await makePeople();
    const answer = await people.mergeInsert('id').whenNotMatchedInsertAll().execute(peopleTable([]));
    assert.deepEqual(countsOf({ ...answer }), { inserted: 0, updated: 0, deleted: 0, rows: 0 });
    assert.equal(answer.version, 1);
    assert.equal(await (await openDirectly(service, people.name)).version(), 1);
  });

  test('a source that holds a key twice is refused with column and key, and nothing is written (P2, P6)', async () => {
    const people = await makePeople();
    const merge = people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();
    await assert.rejects(
      merge.execute(peopleTable([person(7, 'x', 1), person(8, 'y', 1), person(7, 'z', 1)])),
      refusal(/400/, /holds a key twice: id = 7 in rows 1 and 3/),
    );
    assert.deepEqual(await stored(people), everybody);
  });

  const refused: readonly (readonly [string, () => ArrowTable, string, readonly RegExp[]])[] = [
    [
      'a column that the table has not',
      () => new ArrowTable({ id: vectorFromArray([1], new Int32()), shoe: vectorFromArray(['l'], new Utf8()) }),
      'id',
      [/400/, /column shoe does not exist in the table/],
    ],
    [
      'a column of another type',
      () => new ArrowTable({ id: vectorFromArray([1], new Int32()), score: vectorFromArray([1], new Int32()) }),
      'id',
      [/400/, /column score is float64 in the table and int32 in the source/],
    ],
    [
      'a column of another shape',
      () =>
        new ArrowTable({
          id: vectorFromArray([1], new Int32()),
          name: vectorFromArray([['a']], new List(new Field('item', new Utf8()))),
        }),
      'id',
      [/400/, /column name is utf8 in the table and list<utf8> in the source/],
    ],
    ['a key column that the table has not', () => peopleTable([ann]), 'shoe', [/400/, /on: .*no column shoe/]],
    [
      'a key column that the source has not',
      () => peopleTable([ann], ['name']),
      'id',
      [/400/, /on: the source has no column id/],
    ],
    ['a malformed field path', () => peopleTable([ann]), 'name.', [/400/, /malformed field path \\"name\.\\"/]],
  ];
  for (const [what, source, on, texts] of refused) {
    test(`${what} is refused by name, and nothing is written (P6)`, async () => {
      const people = await makePeople();
      const merge = people.mergeInsert(on.split(',')).whenMatchedUpdateAll().whenNotMatchedInsertAll();
      await assert.rejects(merge.execute(source()), refusal(...texts));
      assert.deepEqual(await stored(people), everybody);
    });
  }

  test('a filter that is no SQL is refused, and nothing is written (P6)', async () => {
    const people = await makePeople();
    const merge = people.mergeInsert('id').whenMatchedUpdateAll({ where: 'target.score <' });
    await assert.rejects(
      merge.execute([person(1, 'ANN', 10)]),
      refusal(/400/, /when_matched_update_all_filt: the expression ends where a value should come/),
    );
    assert.deepEqual(await stored(people), everybody);
  });

  test('a merge into a table that is not there says so', async () => {
    const people = await makePeople();
    const { name } = people;
    await database.dropTable(name);
    const merge = people.mergeInsert('id').whenNotMatchedInsertAll();
    await assert.rejects(merge.execute([ann]), refusal(new RegExp(`${name}.*not found`)));
  });

  test('100 000 rows in many batches arrive whole', async () => {
    const rows = Array.from({ length: 100_000 }, (_, id) => person(id, `name ${id}`, id / 2));
    const people = await makePeople(rows.slice(0, 50_000));
    const source = peopleTable(rows.slice(25_000).map((row) => person(row.id, row.name, -1)));
    const answer = await people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(source);
    assert.deepEqual(countsOf({ ...answer }), { inserted: 50_000, updated: 25_000, deleted: 0, rows: 75_000 });
    const expected = rows.map((row, id) => (id < 25_000 ? row : person(row.id, row.name, -1)));
    assert.deepEqual(await stored(people), expected);
  });
});
