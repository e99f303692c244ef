import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '#src/catalog/port.ts';
import { all, path, place, register, table } from './fixtures.ts';

export function concurrencyContract(open: () => Promise<Catalog>): void {
  describe('under concurrency', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    test('of ten who create one namespace, declare one table or drop it, one succeeds', async () => {
      const winnersOf = async (attempt: (number: number) => Promise<unknown>) => {
        const outcomes = await Promise.allSettled(Array.from({ length: 10 }, (_, number) => attempt(number)));
        return outcomes.filter((outcome) => outcome.status === 'fulfilled').length;
      };
      assert.equal(await winnersOf(() => catalog.createNamespace(path('n'), {})), 1);
      assert.equal(await winnersOf((number) => catalog.declareTable(table('n', 't'), place(`${number}`), {})), 1);
      assert.equal(await winnersOf(() => catalog.dropTable(table('n', 't'))), 1);
      assert.equal(await winnersOf((number) => register(catalog, table(`t${number}`), place('one'))), 1);
    });

    test('a namespace is not dropped under a table that is being made', async () => {
      await catalog.createNamespace(path('n'), {});
      const [dropped, declared] = await Promise.allSettled([
        catalog.dropNamespace(path('n')),
        catalog.declareTable(table('n', 't'), place('1'), {}),
      ]);
      assert.notEqual(dropped.status, declared.status);
      const exists = (await catalog.findNamespace(path('n'))) !== undefined;
      assert.equal(exists, declared.status === 'fulfilled');
    });

    test('what was asked for before a close is done', async () => {
      const closing = await open();
      const asked = [
        closing.declareTable(table('t'), place('1'), {}),
        closing.listTables([], all),
        closing.listNamespaces([], all),
      ];
      await closing.close();
      await Promise.all(asked);
    });
  });
}
