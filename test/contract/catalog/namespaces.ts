import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '#src/catalog/port.ts';
import type { NamespacePath, Properties } from '#src/kernel/ids.ts';
import { all, oddNames, paged, path, place, rejects, table } from './fixtures.ts';

export function namespacesContract(open: () => Promise<Catalog>): void {
  describe('namespaces', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    test('the root always exists, without properties, and cannot be created or dropped', async () => {
      assert.deepEqual(await catalog.findNamespace([]), { path: [], properties: {} });
      assert.deepEqual(await catalog.listNamespaces([], all), []);
      await rejects(catalog.createNamespace([], {}), 'NamespaceAlreadyExists');
      await rejects(catalog.dropNamespace([]), 'InvalidInput');
    });

    test('a namespace keeps the properties it was created with', async () => {
      const properties = { owner: 'Zoë "the fox"', __proto__x: '', 'a\u0000b': '\n' };
      const made = await catalog.createNamespace(path('sales'), properties);
      assert.deepEqual(made, { path: ['sales'], properties });
      assert.deepEqual(await catalog.findNamespace(path('sales')), made);
      assert.equal(await catalog.findNamespace(path('Sales')), undefined);
    });

    test('an update replaces all properties, also those of the root', async () => {
      await catalog.createNamespace(path('sales'), { a: '1', b: '2' });
      const overwrite = (names: NamespacePath, properties: Properties) =>
        catalog.createNamespace(names, properties, undefined, 'overwrite');
      assert.deepEqual((await overwrite(path('sales'), { c: '3' })).properties, { c: '3' });
      assert.deepEqual((await catalog.findNamespace(path('sales')))?.properties, { c: '3' });
      await overwrite([], { motto: 'x' });
      assert.deepEqual((await catalog.findNamespace([]))?.properties, { motto: 'x' });
      assert.deepEqual(await overwrite(path('other'), {}), { path: ['other'], properties: {} });
      await rejects(overwrite(path('missing', 'other'), {}), 'NamespaceNotFound');
    });

    test('one that may exist is left alone, with its properties, and is made where there is none', async () => {
      const find = () => catalog.createNamespace(path('sales'), { new: 'yes' }, undefined, 'exist_ok');
      assert.deepEqual(await find(), { path: ['sales'], properties: { new: 'yes' } });
      await catalog.createNamespace(path('sales'), { a: '1' }, undefined, 'overwrite');
      assert.deepEqual(await find(), { path: ['sales'], properties: { a: '1' }, isFound: true });
      const root = await catalog.createNamespace([], { new: 'yes' }, undefined, 'exist_ok');
      assert.deepEqual(root, { path: [], properties: {}, isFound: true });
    });

    test('a namespace is created once, and only in a parent that exists', async () => {
      await catalog.createNamespace(path('a'), { first: 'yes' });
      await rejects(catalog.createNamespace(path('a'), {}), 'NamespaceAlreadyExists');
      assert.deepEqual((await catalog.findNamespace(path('a')))?.properties, { first: 'yes' });
      await rejects(catalog.createNamespace(path('x', 'b'), {}), 'NamespaceNotFound');
    });

    test('only the direct children are listed', async () => {
      for (const names of [['a'], ['a', 'b'], ['a', 'b', 'c'], ['ab']])
        await catalog.createNamespace(path(...names), {});
      assert.deepEqual(await catalog.listNamespaces([], all), ['a', 'ab']);
      assert.deepEqual(await catalog.listNamespaces(path('a'), all), ['b']);
      assert.deepEqual(await catalog.listNamespaces(path('ab'), all), []);
      await rejects(catalog.listNamespaces(path('b'), all), 'NamespaceNotFound');
    });

    test('pages hold every odd name once, in the order of their bytes', async () => {
      for (const odd of oddNames.toReversed()) await catalog.createNamespace(path(odd), {});
      const names = await paged(
        (page) => catalog.listNamespaces([], page),
        (item) => item,
      );
      assert.deepEqual(names, oddNames);
    });

    test('a page may start after a name that does not exist', async () => {
      for (const odd of ['a', 'c']) await catalog.createNamespace(path(odd), {});
      assert.deepEqual(await catalog.listNamespaces([], { after: 'b', limit: 5 }), ['c']);
      assert.deepEqual(await catalog.listNamespaces([], { after: 'c', limit: 5 }), []);
    });

    test('an empty namespace can be dropped, and created anew', async () => {
      await catalog.createNamespace(path('a'), { old: 'yes' });
      await catalog.dropNamespace(path('a'));
      assert.equal(await catalog.findNamespace(path('a')), undefined);
      await rejects(catalog.dropNamespace(path('a')), 'NamespaceNotFound');
      assert.deepEqual((await catalog.createNamespace(path('a'), {})).properties, {});
    });

    test('a namespace that holds a namespace, a table or a create under way cannot be dropped', async () => {
      for (const names of [['a'], ['a', 'b'], ['declared'], ['reserved']]) {
        await catalog.createNamespace(path(...names), {});
      }
      await catalog.declareTable(table('declared', 't'), place('1'), {});
      const creation = await catalog.reserveCreation(table('reserved', 't'), undefined, place('2'));
      for (const name of ['a', 'declared', 'reserved'])
        await rejects(catalog.dropNamespace(path(name)), 'NamespaceNotEmpty');
      await catalog.dropNamespace(path('a', 'b'));
      await catalog.dropTable(table('declared', 't'));
      await catalog.abandonCreation(creation);
      for (const name of ['a', 'declared', 'reserved']) await catalog.dropNamespace(path(name));
      assert.deepEqual(await catalog.listNamespaces([], all), []);
    });

    test('a namespace of the root is a database, and stays one when it is dropped', async () => {
      for (const names of [['a'], ['a', 'b']]) await catalog.createNamespace(path(...names), {});
      const [a, b] = path('a', 'b');
      assert.deepEqual([await catalog.isDatabase(a!), await catalog.isDatabase(b!)], [true, false]);
      assert.deepEqual(await catalog.noteDatabases(), []);
      for (const names of [['a', 'b'], ['a']]) await catalog.dropNamespace(path(...names));
      assert.equal(await catalog.isDatabase(a!), true);
      await catalog.createNamespace(path('a'), {});
      assert.equal(await catalog.isDatabase(a!), true);
    });

    test('a cascade sees what is below a namespace, the deepest first, and nothing next to it', async () => {
      const inside = [['a'], ['a', ' b'], ['a', 'b'], ['a', 'b', 'c']];
      for (const names of [...inside, ['a '], ['a b'], ['aa'], ['A']])
        await catalog.createNamespace(path(...names), {});
      assert.deepEqual(await catalog.namespacesUnder(path('a')), [['a', 'b', 'c'], ['a', ' b'], ['a', 'b'], ['a']]);
      assert.deepEqual(await catalog.namespacesUnder(path('a', 'b', 'c')), [['a', 'b', 'c']]);
      assert.deepEqual(await catalog.namespacesUnder(path('nowhere')), []);
      const everything = await catalog.namespacesUnder([]);
      assert.deepEqual([everything.length, everything[0], everything.at(-1)], [9, ['a', 'b', 'c'], []]);
    });
  });
}
