import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog, DroppedPageRequest } from '#src/catalog/port.ts';
import type { Location, TableId, TableRef } from '#src/kernel/ids.ts';
import { createTable, path, place, publicationOf, rejects, table } from './fixtures.ts';

export function trashContract(open: () => Promise<Catalog>): void {
  describe('the trash', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
      await catalog.createNamespace(path('sales'), {});
      await catalog.createNamespace(path('sales', 'north'), {});
    });
    afterEach(() => catalog.close());
    const t = table('sales', 't');
    const keptFrom = (droppedAtMs: number, keptUntilMs = droppedAtMs + 100) => ({ droppedAtMs, keptUntilMs });
    const stateOf = async (location: Location) => (await catalog.locationsAt(location, 'exact'))[0]?.state;
    const drop = async (ref: TableRef, location: string, droppedAtMs: number) => {
      const made = await createTable(catalog, ref, place(location));
      assert.deepEqual(await catalog.dropTable(ref, undefined, keptFrom(droppedAtMs)), made);
      return made;
    };
    const idsOf = async (page: Omit<DroppedPageRequest, 'after' | 'limit'>) =>
      (await catalog.droppedTables({ ...page, after: undefined, limit: 100 })).map(({ id }) => id);

    test('a dropped table frees its name and keeps its location, and comes back as it was (P1)', async () => {
      const made = await drop(t, 'sales/t.lance', 5);
      assert.equal(await catalog.findTable(t), undefined);
      assert.equal(await stateOf(made.location), 'held');
      assert.deepEqual((await catalog.unfinished()).discarded, []);
      const [found] = await catalog.droppedTables({ of: { named: t }, after: undefined, limit: 2 });
      assert.deepEqual(found, { ...made, ...keptFrom(5), cursor: `5-${made.id}` });
      assert.deepEqual(await catalog.undropTable(t, made.id, t), made);
      assert.deepEqual(await catalog.findTable(t), made);
      assert.deepEqual(await idsOf({}), []);
      await rejects(catalog.undropTable(t, made.id, t), 'TableNotFound');
    });

    test('it comes back under another name, which has to be free and to have a namespace', async () => {
      const made = await drop(t, 'sales/t.lance', 5);
      const second = await createTable(catalog, t, place('sales/t-2.lance'));
      await rejects(catalog.undropTable(t, made.id, t), 'TableAlreadyExists');
      await rejects(catalog.undropTable(t, made.id, table('none', 't')), 'NamespaceNotFound');
      await rejects(catalog.undropTable(table('sales', 'u'), made.id, table('u')), 'TableNotFound');
      assert.deepEqual(await idsOf({ of: { named: t } }), [made.id]);
      assert.deepEqual(await catalog.undropTable(t, made.id, table('u')), { ...made, ref: table('u') });
      assert.deepEqual(await catalog.findTable(t), second);
      assert.deepEqual((await catalog.locationsAt(made.location, 'exact'))[0]?.owner, table('u'));
    });

    test('a purged one is gone: where its files are is discarded, and its location is never given out again', async () => {
      const [moved, stayed] = [await drop(t, 'sales/t.lance', 5), await drop(t, 'sales/t-2.lance', 6)];
      await catalog.purgeDropped(t, moved.id, place('aside/t.lance'));
      await catalog.purgeDropped(t, stayed.id, stayed.location);
      await rejects(catalog.purgeDropped(t, moved.id, moved.location), 'TableNotFound');
      assert.deepEqual((await catalog.unfinished(t)).discarded, ['aside/t.lance', 'sales/t-2.lance']);
      assert.equal(await stateOf(moved.location), 'left');
      await rejects(catalog.declareTable(t, moved.location, {}), 'ConcurrentCreate');
    });

    test('a table that a create replaces goes there too; one that is only declared has no rows to keep', async () => {
      const made = await createTable(catalog, t, place('sales/t.lance'));
      const creation = await catalog.reserveCreation(t, made.id, place('sales/t-2.lance'));
      await catalog.publishCreation(creation, publicationOf('over', { replaced: keptFrom(7) }));
      assert.deepEqual(await idsOf({ of: { named: t } }), [made.id]);
      const declared = await catalog.declareTable(table('d'), place('d.lance'), {});
      await catalog.dropTable(declared.ref, undefined, keptFrom(8));
      assert.deepEqual(await idsOf({}), [made.id]);
      assert.deepEqual((await catalog.unfinished()).discarded, ['d.lance']);
    });

    test('a listing has the newest first, by pages, of a name, of a namespace, or those whose time has passed', async () => {
      const dropped: [TableId, number][] = [];
      for (const [index, atMs] of [3, 1, 2, 2, 2].entries()) {
        const ref = index === 4 ? table('sales', 'north', 'n') : t;
        dropped.push([(await drop(ref, `sales/${index}.lance`, atMs)).id, atMs]);
      }
      await drop(table('other'), 'other.lance', 9);
      const inOrder = dropped.toSorted(([a, aMs], [b, bMs]) => bMs - aMs || (a < b ? -1 : 1)).map(([id]) => id);
      assert.deepEqual(await idsOf({ of: { below: path('sales') } }), inOrder);
      assert.deepEqual(await idsOf({ of: { below: path('sales', 'north') } }), [dropped[4]?.[0]]);
      assert.equal((await idsOf({ of: { below: [] } })).length, 6);
      assert.deepEqual(await idsOf({ endedByMs: 101 }), [dropped[1]?.[0]]);
      const paged: TableId[] = [];
      for (let after: string | undefined; ; ) {
        const page = await catalog.droppedTables({ of: { below: path('sales') }, after, limit: 2 });
        paged.push(...page.map(({ id }) => id));
        if (page.length < 2) break;
        after = page.at(-1)?.cursor;
      }
      assert.deepEqual(paged, inOrder);
    });

    test('a namespace whose tables are all in the trash can be dropped, and one of its name takes them back', async () => {
      const ref = table('sales', 'north', 't');
      const made = await drop(ref, 'sales/north/t.lance', 5);
      await catalog.dropNamespace(path('sales', 'north'));
      await rejects(catalog.undropTable(ref, made.id, ref), 'NamespaceNotFound');
      await catalog.createNamespace(path('sales', 'north'), {});
      assert.deepEqual(await catalog.undropTable(ref, made.id, ref), made);
    });
  });
}
