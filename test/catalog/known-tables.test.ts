import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TableRecord } from '#src/catalog/port.ts';
import { changesTables, KnownTables } from '#src/catalog/sqlite/session.ts';
import type { Location, TableId } from '#src/kernel/ids.ts';
import { table } from '#test/contract/catalog/fixtures.ts';

const ref = table('a', 't');
const recordAt = (location: string): TableRecord => ({
  id: 'id' as TableId,
  ref,
  location: location as Location,
  state: 'created',
  properties: {},
  storageOptions: {},
});

describe('the rows of tables that are known', () => {
  test('are read once, until a statement changes any', async () => {
    const tables = new KnownTables();
    const read: string[] = [];
    const find = (location: string) =>
      tables.find(ref, async () => {
        read.push(location);
        return recordAt(location);
      });
    assert.equal((await find('1'))?.location, '1');
    assert.equal((await find('2'))?.location, '1');
    tables.forget();
    assert.equal((await find('3'))?.location, '3');
    assert.deepEqual(read, ['1', '3']);
  });

  test('are none that were read before a change, and none of tables that are not there', async () => {
    const tables = new KnownTables();
    const { promise, resolve } = Promise.withResolvers<TableRecord>();
    const finding = tables.find(ref, () => promise);
    tables.forget();
    resolve(recordAt('old'));
    await finding;
    assert.equal(await tables.find(ref, async () => undefined), undefined);
    assert.equal((await tables.find(ref, async () => recordAt('new')))?.location, 'new');
  });

  test('end with every statement that may change one', () => {
    for (const statement of [
      'insert into "tables" ("id") values (?)',
      'update "tables" set "path" = ? where "id" = ?',
      'delete from "tables" where "id" = ?',
      'insert or replace into "tables" ("id") values (?)',
    ]) {
      assert.equal(changesTables(statement), true, statement);
    }
    assert.equal(changesTables('select * from "tables" where "path" = ?'), false);
    assert.equal(changesTables('insert into "transactions" ("id") values (?)'), false);
  });
});
