/** What every catalog must do, whatever database it stands on. `open` gives an empty one; the suite closes it. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog, Creation, PageRequest, Publication, TransactionRecord } from '#src/catalog/port.ts';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';
import type {
  BranchName,
  Location,
  NamespacePath,
  ObjectName,
  TableId,
  TableRef,
  TransactionId,
} from '#src/kernel/ids.ts';

export const path = (...names: readonly string[]): NamespacePath => names as readonly ObjectName[];
export const table = (...names: readonly string[]): TableRef => ({
  namespace: path(...names.slice(0, -1)),
  name: names.at(-1) as ObjectName,
});
export const place = (location: string): Location => location as Location;

const all = { after: undefined, limit: 1000, includeDeclared: true };

export function transactionOf(id: string, more: Partial<TransactionRecord> = {}): TransactionRecord {
  return {
    id: id as TransactionId,
    tableId: 'some-table' as TableId,
    ref: table('sales', 'orders'),
    operation: 'merge_insert',
    branch: undefined,
    version: 7,
    outcome: { num_inserted_rows: '3' },
    committedAtMs: 1_790_000_000_123,
    ...more,
  };
}

export function publicationOf(transactionId: string, more: Partial<Publication> = {}): Publication {
  const { tableId: _, ref: __, ...transaction } = transactionOf(transactionId, { operation: 'create_table' });
  return { properties: undefined, storageOptions: {}, transaction, ...more };
}

export const refusal =
  (kind: ErrorName) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof LancegateError, `a LancegateError was expected, not ${error}`);
    assert.equal(error.kind, kind);
    return true;
  };

const rejects = (work: Promise<unknown>, kind: ErrorName): Promise<void> => assert.rejects(work, refusal(kind));

/** Walks a listing two names at a time, as a client that pages does. */
async function paged<Item>(
  list: (page: PageRequest) => Promise<readonly Item[]>,
  keyOf: (item: Item) => string,
): Promise<readonly string[]> {
  const keys: string[] = [];
  for (;;) {
    const items = await list({ after: keys.at(-1), limit: 2 });
    if (items.length === 0) return keys;
    keys.push(...items.map(keyOf));
  }
}

/** In the order of their UTF-8 bytes, which is not that of UTF-16: U+FF5E comes before the emoji. */
const oddNames = [
  ' leading space',
  '"quoted"',
  '%',
  "';drop table tables;--",
  'A',
  'B',
  '[a-z]*',
  '_',
  'a',
  'a b',
  'a"b',
  'ab',
  'a\u0300',
  'b',
  'é',
  '東京',
  '\uff5e',
  '🦊',
];

export function catalogContract(name: string, open: () => Promise<Catalog>): void {
  describe(`${name}, as a catalog,`, () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    const createTable = async (ref: TableRef, location: Location, existing?: TableId) =>
      catalog.publishCreation(await catalog.reserveCreation(ref, existing, location), publicationOf(`of-${location}`));

    describe('namespaces', () => {
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
        assert.deepEqual((await catalog.updateNamespace(path('sales'), { c: '3' })).properties, { c: '3' });
        assert.deepEqual((await catalog.findNamespace(path('sales')))?.properties, { c: '3' });
        await catalog.updateNamespace([], { motto: 'x' });
        assert.deepEqual((await catalog.findNamespace([]))?.properties, { motto: 'x' });
        await rejects(catalog.updateNamespace(path('other'), {}), 'NamespaceNotFound');
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

      test('a cascade sees what is below a namespace, the deepest first, and nothing beside it', async () => {
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

    describe('tables', () => {
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
        assert.deepEqual(await catalog.listTables([], all), [await catalog.findTable(table('sales'))]);
      });

      test('a name is declared or registered once, and only in a namespace that exists', async () => {
        await catalog.declareTable(table('sales', 't'), place('1'), {});
        await rejects(catalog.declareTable(table('sales', 't'), place('2'), {}), 'TableAlreadyExists');
        await rejects(catalog.registerTable(table('sales', 't'), place('2'), {}), 'TableAlreadyExists');
        await rejects(catalog.declareTable(table('other', 't'), place('2'), {}), 'NamespaceNotFound');
        await rejects(catalog.registerTable(table('other', 't'), place('2'), {}), 'NamespaceNotFound');
        assert.equal(await catalog.isLocationFresh(place('2')), true, 'a refusal uses no place up');
      });

      test('a name that a create holds can be neither declared nor registered', async () => {
        await catalog.reserveCreation(table('sales', 't'), undefined, place('1'));
        await rejects(catalog.declareTable(table('sales', 't'), place('2'), {}), 'ConcurrentCreate');
        await rejects(catalog.registerTable(table('sales', 't'), place('2'), {}), 'ConcurrentCreate');
      });

      test('a registered table has data', async () => {
        const made = await catalog.registerTable(table('sales', 't'), place('old.lance'), { from: 'elsewhere' });
        assert.equal(made.state, 'created');
        assert.deepEqual(await catalog.findTable(table('sales', 't')), made);
      });

      test('pages of a namespace hold every odd name once, in the order of their bytes', async () => {
        for (const odd of oddNames.toReversed()) await catalog.declareTable(table('sales', odd), place(odd), {});
        await catalog.declareTable(table('elsewhere'), place('elsewhere'), {});
        const names = await paged(
          (page) => catalog.listTables(path('sales'), { ...page, includeDeclared: true }),
          (record) => record.ref.name,
        );
        assert.deepEqual(names, oddNames);
        await rejects(catalog.listTables(path('other'), all), 'NamespaceNotFound');
      });

      test('all tables are listed by their full path, parents before what is below them', async () => {
        const namespaces = [['a'], ['a', 'b'], ['a b'], ['🦊']];
        for (const names of namespaces) await catalog.createNamespace(path(...names), {});
        const ordered = [['a'], ['a', 'a'], ['a', 'b', 'z'], ['a', 'c'], ['a b', 'a'], ['aa'], ['\uff5e'], ['🦊', '%']];
        for (const names of ordered.toReversed()) {
          await catalog.declareTable(table(...names), place(names.join('/')), {});
        }
        const keys = await paged(
          (page) => catalog.listAllTables({ ...page, includeDeclared: true }),
          ({ ref }) => [...ref.namespace, ref.name].join('\u001f'),
        );
        assert.deepEqual(
          keys.map((key) => key.split('\u001f')),
          ordered,
        );
      });

      test('listings leave declared tables out when asked to, without shortening the page', async () => {
        for (const name of ['a', 'b', 'c']) await catalog.declareTable(table('sales', name), place(name), {});
        for (const name of ['d', 'e']) await catalog.registerTable(table('sales', name), place(name), {});
        const page = { after: undefined, limit: 2, includeDeclared: false };
        const names = (await catalog.listTables(path('sales'), page)).map((record) => record.ref.name);
        assert.deepEqual(names, ['d', 'e']);
        assert.deepEqual(
          (await catalog.listAllTables(page)).map((record) => record.ref.name),
          ['d', 'e'],
        );
      });

      test('a dropped table is gone at once, and its files wait to be removed', async () => {
        const made = await createTable(table('sales', 't'), place('1'));
        assert.deepEqual(await catalog.dropTable(table('sales', 't')), made);
        assert.equal(await catalog.findTable(table('sales', 't')), undefined);
        assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: ['1'] });
        await rejects(catalog.dropTable(table('sales', 't')), 'TableNotFound');
      });

      test('a deregistered table is gone, and its files are left alone', async () => {
        const made = await createTable(table('sales', 't'), place('1'));
        assert.deepEqual(await catalog.deregisterTable(table('sales', 't')), made);
        assert.equal(await catalog.findTable(table('sales', 't')), undefined);
        assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
        await rejects(catalog.deregisterTable(table('sales', 't')), 'TableNotFound');
      });

      test('a name that was dropped can be taken again, by another table with another id', async () => {
        const first = await catalog.declareTable(table('sales', 't'), place('1'), { old: 'yes' });
        await catalog.dropTable(table('sales', 't'));
        const second = await catalog.declareTable(table('sales', 't'), place('2'), {});
        assert.notEqual(second.id, first.id);
        assert.deepEqual(second.properties, {});
      });
    });

    describe('places on storage', () => {
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
        await createTable(table('a'), place('1'));
        await catalog.deregisterTable(table('a'));
        const adopted = await catalog.registerTable(table('b'), place('1'), {});
        assert.equal(adopted.location, '1');
        await catalog.dropTable(table('b'));
        assert.deepEqual((await catalog.unfinished()).discarded, ['1']);
      });

      test('a place that another table or create has, or that waits to be removed, cannot be registered', async () => {
        await createTable(table('a'), place('held'));
        await catalog.reserveCreation(table('b'), undefined, place('reserved'));
        await createTable(table('c'), place('dropped'));
        await catalog.dropTable(table('c'));
        for (const taken of ['held', 'reserved', 'dropped']) {
          await rejects(catalog.registerTable(table('t'), place(taken), {}), 'InvalidInput');
        }
        assert.equal(await catalog.findTable(table('t')), undefined);
      });

      test('a discarded place is listed until it is forgotten, and only a discarded one can be', async () => {
        for (const name of ['b', 'a']) {
          await createTable(table(name), place(name));
          await catalog.dropTable(table(name));
        }
        await createTable(table('live'), place('live'));
        for (const gone of ['b', 'b', 'live', 'never']) await catalog.forgetDiscarded(place(gone));
        assert.deepEqual((await catalog.unfinished()).discarded, ['a']);
        await rejects(catalog.registerTable(table('t'), place('live'), {}), 'InvalidInput');
        assert.equal(await catalog.isLocationFresh(place('never')), true);
      });
    });

    describe('creates', () => {
      test('a table is invisible until it is published, and then has what was published (P1)', async () => {
        const creation = await catalog.reserveCreation(table('t'), undefined, place('1'));
        assert.deepEqual({ ...creation, id: '' }, { id: '', ref: table('t'), location: '1' });
        assert.equal(await catalog.findTable(table('t')), undefined);
        assert.deepEqual(await catalog.listAllTables(all), []);
        assert.deepEqual((await catalog.unfinished()).creations, [creation]);
        const publication = publicationOf('tx', { properties: { a: 'b' }, storageOptions: { c: 'd' } });
        const made = await catalog.publishCreation(creation, publication);
        assert.deepEqual(
          { ...made, id: '' },
          {
            id: '',
            ref: table('t'),
            location: '1',
            state: 'created',
            properties: { a: 'b' },
            storageOptions: { c: 'd' },
          },
        );
        assert.deepEqual(await catalog.findTable(table('t')), made);
        assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
      });

      test('the publication and its transaction are one', async () => {
        const creation = await catalog.reserveCreation(table('t'), undefined, place('1'));
        await catalog.recordTransactions([transactionOf('taken')]);
        await rejects(catalog.publishCreation(creation, publicationOf('taken')), 'Internal');
        assert.equal(await catalog.findTable(table('t')), undefined);
        assert.deepEqual((await catalog.unfinished()).creations, [creation]);
        const { id } = await catalog.publishCreation(creation, publicationOf('free'));
        const expected = transactionOf('free', { operation: 'create_table', tableId: id, ref: table('t') });
        assert.deepEqual(await catalog.findTransaction('free' as TransactionId), expected);
      });

      test('a reservation needs its namespace', async () => {
        await rejects(catalog.reserveCreation(table('no', 't'), undefined, place('1')), 'NamespaceNotFound');
      });

      test('of ten creates of one name one wins, and the others use no place up', async () => {
        const attempts = Array.from({ length: 10 }, (_, number) =>
          catalog.reserveCreation(table('t'), undefined, place(`${number}`)),
        );
        const outcomes = await Promise.allSettled(attempts);
        const won = outcomes.filter((outcome) => outcome.status === 'fulfilled').map((outcome) => outcome.value);
        const lost = outcomes.filter((outcome) => outcome.status === 'rejected').map((outcome) => outcome.reason);
        assert.equal(won.length, 1);
        for (const reason of lost) refusal('ConcurrentCreate')(reason);
        assert.deepEqual((await catalog.unfinished()).creations, won);
        const fresh = await Promise.all(attempts.map((_, number) => catalog.isLocationFresh(place(`${number}`))));
        assert.equal(fresh.filter((isFresh) => isFresh).length, 9);
      });

      test('a reservation stands only on what its caller saw under the name', async () => {
        const old = await catalog.declareTable(table('t'), place('1'), {});
        await rejects(catalog.reserveCreation(table('t'), undefined, place('2')), 'ConcurrentCreate');
        await rejects(catalog.reserveCreation(table('other'), old.id, place('2')), 'ConcurrentCreate');
        await catalog.dropTable(table('t'));
        await rejects(catalog.reserveCreation(table('t'), old.id, place('2')), 'ConcurrentCreate');
        await catalog.declareTable(table('t'), place('3'), {});
        await rejects(catalog.reserveCreation(table('t'), old.id, place('2')), 'ConcurrentCreate');
      });

      test('an overwritten table is visible until the new one is, and its files are discarded then (P1)', async () => {
        const old = await createTable(table('t'), place('old'));
        const creation = await catalog.reserveCreation(table('t'), old.id, place('new'));
        assert.deepEqual(await catalog.findTable(table('t')), old);
        const made = await catalog.publishCreation(creation, publicationOf('tx'));
        assert.notEqual(made.id, old.id);
        assert.equal(made.location, 'new');
        assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: ['old'] });
        assert.equal((await catalog.findTransaction('of-old' as TransactionId))?.tableId, old.id);
      });

      test('a table with data is not written over in its own place (P1)', async () => {
        const old = await createTable(table('t'), place('1'));
        await rejects(catalog.reserveCreation(table('t'), old.id, place('1')), 'ConcurrentCreate');
      });

      test('properties are inherited from a declared table only, and only if the publication has none', async () => {
        const publish = async (existing: TableId, location: string, more: Partial<Publication>) => {
          const creation = await catalog.reserveCreation(table('t'), existing, place(location));
          return await catalog.publishCreation(creation, publicationOf(location, more));
        };
        const declared = await catalog.declareTable(table('t'), place('1'), { declared: 'yes' });
        const materialised = await publish(declared.id, '2', {});
        assert.deepEqual(materialised.properties, { declared: 'yes' });
        const overwritten = await publish(materialised.id, '3', {});
        assert.deepEqual(overwritten.properties, {});
        await catalog.dropTable(table('t'));
        const again = await catalog.declareTable(table('t'), place('4'), { declared: 'yes' });
        assert.deepEqual((await publish(again.id, '5', { properties: {} })).properties, {});
      });

      test('a declared table can be given its data in its own place', async () => {
        const declared = await catalog.declareTable(table('t'), place('1'), {});
        const creation = await catalog.reserveCreation(table('t'), declared.id, place('1'));
        const made = await catalog.publishCreation(creation, publicationOf('tx'));
        assert.deepEqual([made.location, made.state], ['1', 'created']);
        assert.notEqual(made.id, declared.id);
        assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
      });

      test('a declared table keeps its place when the create that was to fill it is abandoned', async () => {
        const declared = await catalog.declareTable(table('t'), place('1'), {});
        await catalog.abandonCreation(await catalog.reserveCreation(table('t'), declared.id, place('1')));
        assert.deepEqual((await catalog.unfinished()).discarded, []);
        assert.deepEqual(await catalog.findTable(table('t')), declared);
      });

      for (const end of ['dropTable', 'deregisterTable'] as const) {
        test(`a create keeps the place it writes to through a ${end} of the declared table (P1)`, async () => {
          const declared = await catalog.declareTable(table('t'), place('1'), {});
          const creation = await catalog.reserveCreation(table('t'), declared.id, place('1'));
          await catalog[end](table('t'));
          assert.deepEqual((await catalog.unfinished()).discarded, []);
          await rejects(catalog.registerTable(table('u'), place('1'), {}), 'InvalidInput');
          await catalog.abandonCreation(creation);
          assert.deepEqual((await catalog.unfinished()).discarded, ['1']);
        });
      }

      test('a drop of the table that is being overwritten does not hinder the publication', async () => {
        const old = await createTable(table('t'), place('old'));
        const creation = await catalog.reserveCreation(table('t'), old.id, place('new'));
        await catalog.dropTable(table('t'));
        await catalog.publishCreation(creation, publicationOf('tx'));
        assert.equal((await catalog.findTable(table('t')))?.location, 'new');
        assert.deepEqual((await catalog.unfinished()).discarded, ['old']);
      });

      test('an abandoned create gives its name back, and its files wait to be removed', async () => {
        const creation = await catalog.reserveCreation(table('t'), undefined, place('1'));
        await catalog.abandonCreation(creation);
        assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: ['1'] });
        await createTable(table('t'), place('2'));
      });

      test('abandoning again does nothing, whatever became of the place', async () => {
        const abandoned = await catalog.reserveCreation(table('a'), undefined, place('1'));
        await catalog.abandonCreation(abandoned);
        await catalog.forgetDiscarded(place('1'));
        const published = await catalog.reserveCreation(table('b'), undefined, place('2'));
        await catalog.publishCreation(published, publicationOf('tx'));
        await catalog.deregisterTable(table('b'));
        for (const creation of [abandoned, published]) await catalog.abandonCreation(creation);
        assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
      });

      test('a create that was abandoned or published cannot be published (P1)', async () => {
        await catalog.createNamespace(path('n'), {});
        const publish = (creation: Creation) => catalog.publishCreation(creation, publicationOf(`late-${creation.id}`));
        const published = await catalog.reserveCreation(table('n', 't'), undefined, place('1'));
        const made = await publish(published);
        await rejects(publish(published), 'ConcurrentCreate');
        assert.deepEqual(await catalog.findTable(table('n', 't')), made);
        await catalog.dropTable(table('n', 't'));
        const abandoned = await catalog.reserveCreation(table('n', 't'), undefined, place('2'));
        await catalog.abandonCreation(abandoned);
        await rejects(publish(abandoned), 'ConcurrentCreate');
        await catalog.dropNamespace(path('n'));
        await rejects(publish(abandoned), 'NamespaceNotFound');
      });
    });

    describe('transactions', () => {
      test('a transaction is found as it was recorded', async () => {
        const onMain = transactionOf('1', { ref: table('t'), version: Number.MAX_SAFE_INTEGER, outcome: {} });
        const onBranch = transactionOf('2', { ref: table('a', 'b', 't'), branch: 'exp/🦊' as BranchName });
        await catalog.recordTransactions([onMain, onBranch]);
        for (const record of [onMain, onBranch]) assert.deepEqual(await catalog.findTransaction(record.id), record);
        assert.equal(await catalog.findTransaction('3' as TransactionId), undefined);
      });

      test('of a group of transactions all are recorded or none', async () => {
        await catalog.recordTransactions([transactionOf('taken')]);
        const many = Array.from({ length: 5000 }, (_, number) => transactionOf(`${number}`));
        await rejects(catalog.recordTransactions([...many, transactionOf('taken')]), 'Internal');
        assert.equal(await catalog.findTransaction('0' as TransactionId), undefined);
        await catalog.recordTransactions(many);
        assert.deepEqual(await catalog.findTransaction('4999' as TransactionId), transactionOf('4999'));
        await catalog.recordTransactions([]);
      });

      test('a transaction outlives its table', async () => {
        const made = await createTable(table('t'), place('1'));
        await catalog.dropTable(table('t'));
        assert.equal((await catalog.findTransaction('of-1' as TransactionId))?.tableId, made.id);
      });

      test('what was committed before a time can be forgotten', async () => {
        await catalog.recordTransactions([1, 2, 3].map((time) => transactionOf(`${time}`, { committedAtMs: time })));
        assert.equal(await catalog.forgetTransactions(3), 2);
        assert.equal(await catalog.forgetTransactions(3), 0);
        assert.equal(await catalog.findTransaction('2' as TransactionId), undefined);
        assert.ok(await catalog.findTransaction('3' as TransactionId));
      });
    });

    describe('under concurrency', () => {
      test('of ten who create one namespace, declare one table or drop it, one succeeds', async () => {
        const winnersOf = async (attempt: (number: number) => Promise<unknown>) => {
          const outcomes = await Promise.allSettled(Array.from({ length: 10 }, (_, number) => attempt(number)));
          return outcomes.filter((outcome) => outcome.status === 'fulfilled').length;
        };
        assert.equal(await winnersOf(() => catalog.createNamespace(path('n'), {})), 1);
        assert.equal(await winnersOf((number) => catalog.declareTable(table('n', 't'), place(`${number}`), {})), 1);
        assert.equal(await winnersOf(() => catalog.dropTable(table('n', 't'))), 1);
        assert.equal(await winnersOf((number) => catalog.registerTable(table(`t${number}`), place('one'), {})), 1);
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
  });
}
