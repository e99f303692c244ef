/** The SDK changes rows over HTTP, and an embedded database does the same: both have the same rows afterwards. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Connection, connect, type Table } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { connectByApiKey, openDirectly, type Row, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const [ann, bob, cid] = [person(1, 'ann', 1), person(2, 'bob', 2), person(3, 'cid', 3)];

/** What is done to a table, and the number of rows that it says it changed, if it says so on both sides. */
const changes: Readonly<Record<string, (table: Table) => Promise<unknown>>> = {
  'rows of records are added': (table) => table.add([person(4, 'dan', 4), person(1, 'ann again', 1)]),
  'rows of an Arrow table are added': (table) => table.add(peopleTable([person(5, null, null)])),
  'rows without a column are added': (table) => table.add(peopleTable([{ id: 6, name: 'eve' }], ['id', 'name'])),
  'ten thousand rows are added': (table) =>
    table.add(peopleTable(Array.from({ length: 10_000 }, (_, index) => person(100 + index, `p${index}`, index / 2)))),
  'no rows are added': (table) => table.add(peopleTable([])),
  'all rows are replaced': (table) => table.add(peopleTable([person(7, 'gil', 7)]), { mode: 'overwrite' }),
  'all rows and columns are replaced': (table) =>
    table.add(peopleTable([{ id: 8, name: 'hal' }], ['name', 'id']), { mode: 'overwrite' }),
  'values are set': async (table) =>
    (await table.update({ values: { name: "o'hara", score: 9.5 }, where: 'id > 1' })).rowsUpdated,
  'expressions are set': async (table) =>
    (await table.update({ valuesSql: { score: 'score * 2 + id' }, where: "name LIKE '%n'" })).rowsUpdated,
  'all rows are set': async (table) => (await table.update({ name: 'upper(name)' })).rowsUpdated,
  'no row is set': async (table) => (await table.update({ values: { score: 1 }, where: 'id > 99' })).rowsUpdated,
  'rows are deleted': async (table) => (await table.delete('id IN (1, 3)')).numDeletedRows,
  'all rows are deleted': async (table) => (await table.delete('true')).numDeletedRows,
};

describe('the LanceDB SDK changes rows as in an embedded database (P4)', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  let embedded: Connection;
  let tables = 0;
  before(async () => {
    service = await startTestService(later, { chunkBytes: 32 * 2 ** 10 });
    database = await connectByApiKey(service);
    embedded = await connect(temporaryFolder(later));
  });
  const both = async (): Promise<readonly [Table, Table]> => {
    tables += 1;
    const rows = () => peopleTable([ann, bob, cid]);
    return [await database.createTable(`t${tables}`, rows()), await embedded.createTable(`t${tables}`, rows())];
  };
  const inOrder = async (table: Table): Promise<readonly string[]> =>
    (await rowsInOrder(table, 'id')).map((row: Row) => JSON.stringify(row)).sort();
  const versionOf = (told: unknown): unknown =>
    typeof told === 'object' && told !== null && 'version' in told ? told.version : undefined;

  for (const [what, change] of Object.entries(changes)) {
    test(what, async () => {
      const [ours, theirs] = await both();
      const [told, expected] = [await change(ours), await change(theirs)];
      if (typeof expected === 'number') assert.equal(told, expected);
      else assert.equal(versionOf(told), await openDirectly(service, ours.name).then((table) => table.version()));
      assert.deepEqual(await inOrder(await openDirectly(service, ours.name)), await inOrder(theirs));
      assert.equal(await ours.countRows(), await theirs.countRows());
      const names = async (table: Table) => (await table.schema()).fields.map(({ name }) => name);
      assert.deepEqual(await names(await openDirectly(service, ours.name)), await names(theirs));
    });
  }

  test('rows with a column that the table lacks are refused by name, and nothing is added', async () => {
    const [ours] = await both();
    await assert.rejects(ours.add([{ id: 9, name: 'ida', score: 9, age: 90 }]), refusal(/age/));
    assert.equal(await ours.countRows(), 3);
  });
});
