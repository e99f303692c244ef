import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '#src/catalog/port.ts';
import { all, createTable, isFresh, oddNames, paged, path, place, register, rejects, table } from './fixtures.ts';

export function tablesContract(open: () => Promise<Catalog>): void {
  describe('tables', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    beforeEach(async () => {
      await catalog.createNamespace(path('sales'), {});
    });

    test('a declared table is found as it was declared', async () => {
      const made = await catalog.declareTable(table('sales', 'orders'), place('sales/orders.lance'), {
        owner: 'ann',
      });
      const { id, ...rest } = made;
      assert.ok(id.length > 0);
      assert.deepEqual(rest, {
        ref: table('sales', 'orders'),
        location: 'sales/orders.lance',
        state: 'declared',
        properties: { owner: 'ann' },
        storageOptions: {},
      });
      assert.deepEqual(await catalog.findTable(table('sales', 'orders')), made);
      assert.equal(await catalog.findTable(table('sales', 'Orders')), undefined);
      assert.equal(await catalog.findTable(table('orders')), undefined);
    });

    test('a name that holds what separates other identifiers is one name', async () => {
      for (const names of [['a'], ['a', 'b'], ['a$b'], ['a.b'], ['a/b']])
        await catalog.createNamespace(path(...names), {});
      const refs = [table('a', 'b', 'c'), table('a$b', 'c'), table('a.b', 'c'), table('a/b', 'c'), table('a', 'b')];
      for (const [number, ref] of refs.entries()) await catalog.declareTable(ref, place(`${number}`), {});
      for (const [number, ref] of refs.entries()) assert.equal((await catalog.findTable(ref))?.location, `${number}`);
    });

    test('a table and a namespace may share a name', async () => {
      await catalog.declareTable(table('sales'), place('sales.lance'), {});
      assert.deepEqual((await catalog.findTable(table('sales')))?.ref, table('sales'));
      const [listed, ...others] = await catalog.listTables([], all);
      assert.deepEqual([listed?.id, ...others], [(await catalog.findTable(table('sales')))?.id]);
    });

    test('a name is declared or registered once, and only in a namespace that exists', async () => {
      await catalog.declareTable(table('sales', 't'), place('1'), {});
      await rejects(catalog.declareTable(table('sales', 't'), place('2'), {}), 'TableAlreadyExists');
      await rejects(register(catalog, table('sales', 't'), place('2')), 'TableAlreadyExists');
      await rejects(catalog.declareTable(table('other', 't'), place('2'), {}), 'NamespaceNotFound');
      await rejects(register(catalog, table('other', 't'), place('2')), 'NamespaceNotFound');
      assert.equal(await isFresh(catalog, place('2')), true, 'a refusal uses no place up');
    });

    test('a name that a create holds can be neither declared nor registered', async () => {
      await catalog.reserveCreation(table('sales', 't'), undefined, place('1'));
      await rejects(catalog.declareTable(table('sales', 't'), place('2'), {}), 'ConcurrentCreate');
      await rejects(register(catalog, table('sales', 't'), place('2')), 'ConcurrentCreate');
    });

    test('a registered table has data', async () => {
      const made = await register(catalog, table('sales', 't'), place('old.lance'), {
        properties: { from: 'elsewhere' },
      });
      assert.equal(made.state, 'created');
      assert.deepEqual(await catalog.findTable(table('sales', 't')), made);
    });

    test('pages of a namespace hold every odd name once, in the order of their bytes', async () => {
      for (const odd of oddNames.toReversed()) await catalog.declareTable(table('sales', odd), place(odd), {});
      await catalog.declareTable(table('elsewhere'), place('elsewhere'), {});
      const cursors = await paged(
        (page) => catalog.listTables(path('sales'), { ...page, includeDeclared: true }),
        ({ cursor }) => cursor,
      );
      assert.equal(cursors.length, oddNames.length);
      const listed = await catalog.listTables(path('sales'), all);
      assert.deepEqual(
        listed.map(({ ref, cursor }) => [ref.name, cursor]),
        oddNames.map((name, index) => [name, cursors[index]]),
      );
      await rejects(catalog.listTables(path('other'), all), 'NamespaceNotFound');
    });

    test('all tables are listed by their full path, parents before what is below them', async () => {
      const namespaces = [['a'], ['a', 'b'], ['a b'], ['🦊']];
      for (const names of namespaces) await catalog.createNamespace(path(...names), {});
      const ordered = [['a'], ['a', 'a'], ['a', 'b', 'z'], ['a', 'c'], ['a b', 'a'], ['aa'], ['\uff5e'], ['🦊', '%']];
      for (const names of ordered.toReversed()) {
        await catalog.declareTable(table(...names), place(names.join('/')), {});
      }
      const cursors = await paged(
        (page) => catalog.listTables([], { ...page, includeDeclared: true, includeBelow: true }),
        ({ cursor }) => cursor,
      );
      const listed = await catalog.listTables([], { ...all, includeBelow: true });
      assert.deepEqual(
        listed.map(({ ref, cursor }) => [[...ref.namespace, ref.name], cursor]),
        ordered.map((names, index) => [names, cursors[index]]),
      );
      assert.equal(cursors.length, ordered.length);
      const below = async (...names: string[]) =>
        (await catalog.listTables(path(...names), { ...all, includeBelow: true })).map(({ ref }) => [
          ...ref.namespace,
          ref.name,
        ]);
      assert.deepEqual(await below('a'), [
        ['a', 'a'],
        ['a', 'b', 'z'],
        ['a', 'c'],
      ]);
      assert.deepEqual(await below('a', 'b'), [['a', 'b', 'z']]);
    });

    test('listings leave declared tables out when asked to, without shortening the page', async () => {
      for (const name of ['a', 'b', 'c']) await catalog.declareTable(table('sales', name), place(name), {});
      for (const name of ['d', 'e']) await register(catalog, table('sales', name), place(name));
      const page = { after: undefined, limit: 2, includeDeclared: false };
      const names = (await catalog.listTables(path('sales'), page)).map((record) => record.ref.name);
      assert.deepEqual(names, ['d', 'e']);
      assert.deepEqual(
        (await catalog.listTables([], { ...page, includeBelow: true })).map((record) => record.ref.name),
        ['d', 'e'],
      );
    });

    test('a dropped table is gone at once, and its files wait to be removed', async () => {
      const made = await createTable(catalog, table('sales', 't'), place('1'));
      assert.deepEqual(await catalog.dropTable(table('sales', 't')), made);
      assert.equal(await catalog.findTable(table('sales', 't')), undefined);
      assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: ['1'] });
      await rejects(catalog.dropTable(table('sales', 't')), 'TableNotFound');
    });

    test('a deregistered table is gone, and its files are left alone', async () => {
      const made = await createTable(catalog, table('sales', 't'), place('1'));
      assert.deepEqual(await catalog.dropTable(table('sales', 't'), undefined, 'left'), made);
      assert.equal(await catalog.findTable(table('sales', 't')), undefined);
      assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
      await rejects(catalog.dropTable(table('sales', 't'), undefined, 'left'), 'TableNotFound');
    });

    test('a name that was dropped can be taken again, by another table with another id', async () => {
      const first = await catalog.declareTable(table('sales', 't'), place('1'), { old: 'yes' });
      await catalog.dropTable(table('sales', 't'));
      const second = await catalog.declareTable(table('sales', 't'), place('2'), {});
      assert.notEqual(second.id, first.id);
      assert.deepEqual(second.properties, {});
    });
  });
}
