import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog, RequestOwner } from '#src/catalog/port.ts';
import type { IdempotencyKey } from '#src/kernel/ids.ts';
import { all, createTable, path, place, rejects, table } from './fixtures.ts';

export function renamesContract(open: () => Promise<Catalog>): void {
  describe('renames', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
      await catalog.createNamespace(path('sales'), {});
      await catalog.createNamespace(path('archive'), {});
    });
    afterEach(() => catalog.close());
    const from = table('sales', 't');
    const to = table('archive', 'u');

    test('a renamed table keeps all but its name, is listed there alone, and owns its location by the new name', async () => {
      const made = await createTable(catalog, from, place('sales/t.lance'));
      assert.deepEqual(await catalog.renameTable(from, to), { ...made, ref: to });
      assert.deepEqual(await catalog.findTable(to), { ...made, ref: to });
      assert.equal(await catalog.findTable(from), undefined);
      assert.deepEqual(await catalog.listTables(path('sales'), all), []);
      assert.deepEqual(
        (await catalog.listTables(path('archive'), all)).map(({ ref }) => ref),
        [to],
      );
      const [known] = await catalog.locationsAt(made.location, 'exact');
      assert.deepEqual(known, { location: made.location, state: 'held', owner: to });
      await rejects(catalog.dropTable(from), 'TableNotFound');
      await catalog.dropNamespace(path('sales'));
      await rejects(catalog.dropNamespace(path('archive')), 'NamespaceNotEmpty');
    });

    test('what is known of its open branches and write intents follows it (P6)', async () => {
      const { id: tableId, location } = await createTable(catalog, from, place('sales/t.lance'));
      const open = { tableId, branch: undefined, acknowledgedVersion: 3, storageSession: 's' };
      await catalog.markOpenForWriting(open);
      const keyed = { owner: 'ann' as RequestOwner, key: 'k' as IdempotencyKey, requestDigest: 'r', bodyDigest: 'b' };
      const intent = {
        ...keyed,
        attempt: 'a',
        askedAtMs: 1,
        expiresAtMs: 9,
        tableId,
        ref: from,
        branch: undefined,
        baseVersion: 3,
      };
      await catalog.recordIntents([intent]);
      await catalog.renameTable(from, to);
      assert.deepEqual(await catalog.recoveryMarks(), [{ ...open, ref: to, location }]);
      assert.deepEqual(await catalog.writeIntents(), [{ ...intent, ref: to }]);
    });

    test('names that are not there or not free are refused, and nothing changes', async () => {
      const made = await createTable(catalog, from, place('sales/t.lance'));
      await createTable(catalog, to, place('archive/u.lance'));
      await rejects(catalog.renameTable(table('sales', 'none'), table('sales', 'x')), 'TableNotFound');
      await rejects(catalog.renameTable(from, to), 'TableAlreadyExists');
      await rejects(catalog.renameTable(from, from), 'TableAlreadyExists');
      await rejects(catalog.renameTable(from, table('none', 'x')), 'NamespaceNotFound');
      await catalog.reserveCreation(table('sales', 'coming'), undefined, place('sales/coming.lance'));
      await rejects(catalog.renameTable(from, table('sales', 'coming')), 'ConcurrentCreate');
      assert.deepEqual(await catalog.findTable(from), made);
    });

    test('a table that is about to be replaced keeps its name: the replacement discards its files', async () => {
      const made = await createTable(catalog, from, place('sales/t.lance'));
      const creation = await catalog.reserveCreation(from, made.id, place('sales/t-2.lance'));
      await rejects(catalog.renameTable(from, to), 'ConcurrentCreate');
      await catalog.abandonCreation(creation);
      await catalog.renameTable(from, to);
    });

    test('a declared table is renamed, too, and its name is free again', async () => {
      await catalog.declareTable(from, place('sales/t.lance'), { owner: 'ann' });
      await catalog.renameTable(from, to);
      assert.equal((await catalog.findTable(to))?.state, 'declared');
      await catalog.declareTable(from, place('sales/t-2.lance'), {});
    });
  });
}
