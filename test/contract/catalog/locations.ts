import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '#src/catalog/port.ts';
import { createTable, isFresh, place, register, rejects, table } from './fixtures.ts';

export function locationsContract(open: () => Promise<Catalog>): void {
  describe('locations on storage', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    test('a location is fresh until it is given out, and never again (P1)', async () => {
      assert.equal(await isFresh(catalog, place('1')), true);
      for (const [number, end] of (['discarded', 'left'] as const).entries()) {
        await catalog.declareTable(table('t'), place(`${number}`), {});
        assert.equal(await isFresh(catalog, place(`${number}`)), false);
        await catalog.dropTable(table('t'), undefined, end);
        await catalog.forgetDiscarded(place(`${number}`));
        assert.equal(await isFresh(catalog, place(`${number}`)), false, end);
      }
      await catalog.abandonCreation(await catalog.reserveCreation(table('t'), undefined, place('2')));
      await catalog.forgetDiscarded(place('2'));
      assert.equal(await isFresh(catalog, place('2')), false);
    });

    test('a location that is used is not given to a declared table or a create (P1)', async () => {
      await catalog.declareTable(table('a'), place('live'), {});
      await catalog.declareTable(table('b'), place('discarded'), {});
      await catalog.dropTable(table('b'));
      await catalog.declareTable(table('c'), place('retired'), {});
      await catalog.dropTable(table('c'), undefined, 'left');
      for (const used of ['live', 'discarded', 'retired']) {
        await rejects(catalog.declareTable(table('t'), place(used), {}), 'ConcurrentCreate');
        await rejects(catalog.reserveCreation(table('t'), undefined, place(used)), 'ConcurrentCreate');
      }
    });

    test('a deregistered location can be registered again, under any name', async () => {
      await createTable(catalog, table('a'), place('1'));
      await catalog.dropTable(table('a'), undefined, 'left');
      const adopted = await register(catalog, table('b'), place('1'));
      assert.equal(adopted.location, '1');
      await catalog.dropTable(table('b'));
      assert.deepEqual((await catalog.unfinished()).discarded, ['1']);
    });

    test('a location that another table or create has, or that waits to be removed, cannot be registered', async () => {
      await createTable(catalog, table('a'), place('held'));
      await catalog.reserveCreation(table('b'), undefined, place('reserved'));
      await createTable(catalog, table('c'), place('dropped'));
      await catalog.dropTable(table('c'));
      for (const taken of ['held', 'reserved', 'dropped']) {
        await rejects(register(catalog, table('t'), place(taken)), 'InvalidInput');
      }
      assert.equal(await catalog.findTable(table('t')), undefined);
    });

    test('a location is known with whose it is or was, and what became of it (P9)', async () => {
      const known = async (location: string) =>
        (await catalog.locationsAt(place(location), 'exact')).map(({ owner, state }) => [owner?.name, state]);
      await createTable(catalog, table('a'), place('1'));
      assert.deepEqual(await known('1'), [['a', 'held']]);
      await catalog.dropTable(table('a'), undefined, 'left');
      assert.deepEqual(await known('1'), [['a', 'left']]);
      await register(catalog, table('b'), place('1'));
      assert.deepEqual(await known('1'), [['b', 'held']]);
      await catalog.dropTable(table('b'));
      assert.deepEqual(await known('1'), [['b', 'discarded']]);
      await catalog.forgetDiscarded(place('1'));
      assert.deepEqual(await known('1'), [['b', 'left']]);
      await catalog.reserveCreation(table('c'), undefined, place('2'));
      assert.deepEqual(await known('2'), [['c', 'held']]);
      assert.deepEqual(await known('3'), []);
    });

    test('a location is known by those inside and around it, and by none that is merely spelt alike (P9)', async () => {
      const spelt = ['a', 'a.lance', 'a.lance-1', 'a.lance/b', 'a.lance/b/c.lance', 'a.lance0', 'b/a.lance', 'a.lanc'];
      for (const [number, at] of spelt.entries()) await catalog.declareTable(table(`t${number}`), place(at), {});
      const at = async (location: string) =>
        (await catalog.locationsAt(place(location), 'exact')).map((known) => known.location);
      assert.deepEqual(await at('a.lance'), ['a.lance', 'a.lance/b', 'a.lance/b/c.lance']);
      assert.deepEqual(await at('a.lance/b/c.lance/d.lance'), ['a.lance', 'a.lance/b', 'a.lance/b/c.lance']);
      assert.deepEqual(await at('b/a.lance/x'), ['b/a.lance']);
      assert.deepEqual(await at('A.lance'), []);
      for (const near of ['a.lance/x.lance', 'a.lance/b/x/y.lance']) {
        await rejects(register(catalog, table('t'), place(near)), 'InvalidInput');
      }
      await catalog.declareTable(table('inner'), place('c/d.lance/e.lance'), {});
      await rejects(register(catalog, table('t'), place('c/d.lance')), 'InvalidInput');
    });

    test('where the file system does not tell case and Unicode forms apart, nor does the catalog (P9)', async () => {
      await catalog.declareTable(table('t'), place('Caf\u00e9/T.lance'), {});
      for (const alike of ['caf\u00e9/t.lance', 'CAFE\u0301/T.LANCE', 'cafe\u0301/t.lance/x.lance']) {
        assert.equal((await catalog.locationsAt(place(alike), 'loose'))[0]?.owner?.name, 't');
        await rejects(register(catalog, table('u'), place(alike), { spelling: 'loose' }), 'InvalidInput');
        assert.deepEqual(await catalog.locationsAt(place(alike), 'exact'), []);
      }
    });

    test('a location that changed hands since it was looked at is not adopted (P9)', async () => {
      await createTable(catalog, table('a'), place('1'));
      await catalog.dropTable(table('a'), undefined, 'left');
      const seen = await catalog.locationsAt(place('1'), 'exact');
      await register(catalog, table('b'), place('1'));
      await rejects(register(catalog, table('c'), place('1'), { seen }), 'ConcurrentCreate');
      await catalog.dropTable(table('b'), undefined, 'left');
      await rejects(register(catalog, table('c'), place('1'), { seen }), 'ConcurrentCreate');
      await rejects(register(catalog, table('c'), place('1'), { seen: [] }), 'ConcurrentCreate');
      assert.equal(await catalog.findTable(table('c')), undefined);
    });

    test('a name changes hands in the step that adopts, or stays with the table that has it (P1)', async () => {
      const first = await createTable(catalog, table('t'), place('1'));
      await createTable(catalog, table('u'), place('2'));
      await rejects(register(catalog, table('t'), place('2'), { replaces: first.id }), 'InvalidInput');
      assert.deepEqual(await catalog.findTable(table('t')), first);
      await catalog.dropTable(table('u'), undefined, 'left');
      const second = await register(catalog, table('t'), place('2'), { replaces: first.id });
      assert.deepEqual([second.location, second.id === first.id], ['2', false]);
      await rejects(register(catalog, table('t'), place('1'), { replaces: first.id }), 'ConcurrentCreate');
      await register(catalog, table('former'), place('1'));
      await register(catalog, table('t'), place('2'), { replaces: second.id, properties: { again: 'yes' } });
      assert.deepEqual((await catalog.findTable(table('t')))?.properties, { again: 'yes' });
    });

    test('a discarded location is listed until it is forgotten, and only a discarded one can be', async () => {
      for (const name of ['b', 'a']) {
        await createTable(catalog, table(name), place(name));
        await catalog.dropTable(table(name));
      }
      await createTable(catalog, table('live'), place('live'));
      for (const gone of ['b', 'b', 'live', 'never']) await catalog.forgetDiscarded(place(gone));
      assert.deepEqual((await catalog.unfinished()).discarded, ['a']);
      await rejects(register(catalog, table('t'), place('live')), 'InvalidInput');
      assert.equal(await isFresh(catalog, place('never')), true);
    });
  });
}
