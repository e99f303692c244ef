import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '#src/catalog/port.ts';
import { createTable, place, rejects, table } from './fixtures.ts';

export function locationsContract(open: () => Promise<Catalog>): void {
  describe('places on storage', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    test('a place is fresh until it is given out, and never again (P1)', async () => {
      assert.equal(await catalog.isLocationFresh(place('1')), true);
      for (const [number, end] of (['dropTable', 'deregisterTable'] as const).entries()) {
        await catalog.declareTable(table('t'), place(`${number}`), {});
        assert.equal(await catalog.isLocationFresh(place(`${number}`)), false);
        await catalog[end](table('t'));
        await catalog.forgetDiscarded(place(`${number}`));
        assert.equal(await catalog.isLocationFresh(place(`${number}`)), false, end);
      }
      await catalog.abandonCreation(await catalog.reserveCreation(table('t'), undefined, place('2')));
      await catalog.forgetDiscarded(place('2'));
      assert.equal(await catalog.isLocationFresh(place('2')), false);
    });

    test('a place that is used is not given to a declared table or a create (P1)', async () => {
      await catalog.declareTable(table('a'), place('live'), {});
      await catalog.declareTable(table('b'), place('discarded'), {});
      await catalog.dropTable(table('b'));
      await catalog.declareTable(table('c'), place('retired'), {});
      await catalog.deregisterTable(table('c'));
      for (const used of ['live', 'discarded', 'retired']) {
        await rejects(catalog.declareTable(table('t'), place(used), {}), 'ConcurrentCreate');
        await rejects(catalog.reserveCreation(table('t'), undefined, place(used)), 'ConcurrentCreate');
      }
    });

    test('a deregistered place can be registered again, under any name', async () => {
      await createTable(catalog, table('a'), place('1'));
      await catalog.deregisterTable(table('a'));
      const adopted = await catalog.registerTable(table('b'), place('1'), {});
      assert.equal(adopted.location, '1');
      await catalog.dropTable(table('b'));
      assert.deepEqual((await catalog.unfinished()).discarded, ['1']);
    });

    test('a place that another table or create has, or that waits to be removed, cannot be registered', async () => {
      await createTable(catalog, table('a'), place('held'));
      await catalog.reserveCreation(table('b'), undefined, place('reserved'));
      await createTable(catalog, table('c'), place('dropped'));
      await catalog.dropTable(table('c'));
      for (const taken of ['held', 'reserved', 'dropped']) {
        await rejects(catalog.registerTable(table('t'), place(taken), {}), 'InvalidInput');
      }
      assert.equal(await catalog.findTable(table('t')), undefined);
    });

    test('a discarded place is listed until it is forgotten, and only a discarded one can be', async () => {
      for (const name of ['b', 'a']) {
        await createTable(catalog, table(name), place(name));
        await catalog.dropTable(table(name));
      }
      await createTable(catalog, table('live'), place('live'));
      for (const gone of ['b', 'b', 'live', 'never']) await catalog.forgetDiscarded(place(gone));
      assert.deepEqual((await catalog.unfinished()).discarded, ['a']);
      await rejects(catalog.registerTable(table('t'), place('live'), {}), 'InvalidInput');
      assert.equal(await catalog.isLocationFresh(place('never')), true);
    });
  });
}
