import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog, Creation } from '#src/catalog/port.ts';
import type { TransactionId } from '#src/kernel/ids.ts';
import {
  all,
  createTable,
  isFresh,
  path,
  place,
  publicationOf,
  refusal,
  register,
  rejects,
  table,
  transactionOf,
} from './fixtures.ts';

export function createsContract(open: () => Promise<Catalog>): void {
  describe('creates', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    test('a table is invisible until it is published, and then has what was published (P1)', async () => {
      const creation = await catalog.reserveCreation(table('t'), undefined, place('1'));
      assert.deepEqual({ ...creation, id: '' }, { id: '', ref: table('t'), location: '1' });
      assert.equal(await catalog.findTable(table('t')), undefined);
      assert.deepEqual(await catalog.listTables([], { ...all, includeBelow: true }), []);
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

    test('of ten creates of one name one wins, and the others use no location up', async () => {
      const attempts = Array.from({ length: 10 }, (_, number) =>
        catalog.reserveCreation(table('t'), undefined, place(`${number}`)),
      );
      const outcomes = await Promise.allSettled(attempts);
      const won = outcomes.filter((outcome) => outcome.status === 'fulfilled').map((outcome) => outcome.value);
      const lost = outcomes.filter((outcome) => outcome.status === 'rejected').map((outcome) => outcome.reason);
      assert.equal(won.length, 1);
      for (const reason of lost) refusal('ConcurrentCreate')(reason);
      assert.deepEqual((await catalog.unfinished()).creations, won);
      const fresh = await Promise.all(attempts.map((_, number) => isFresh(catalog, place(`${number}`))));
      assert.equal(fresh.filter(Boolean).length, 9);
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
      const old = await createTable(catalog, table('t'), place('old'));
      const creation = await catalog.reserveCreation(table('t'), old.id, place('new'));
      assert.deepEqual(await catalog.findTable(table('t')), old);
      const made = await catalog.publishCreation(creation, publicationOf('tx'));
      assert.notEqual(made.id, old.id);
      assert.equal(made.location, 'new');
      assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: ['old'] });
      assert.equal((await catalog.findTransaction('of-old' as TransactionId))?.tableId, old.id);
    });

    test('a table with data is not written over at its own location (P1)', async () => {
      const old = await createTable(catalog, table('t'), place('1'));
      await rejects(catalog.reserveCreation(table('t'), old.id, place('1')), 'ConcurrentCreate');
    });

    test('a declared table can be given its data at its own location', async () => {
      const declared = await catalog.declareTable(table('t'), place('1'), {});
      const creation = await catalog.reserveCreation(table('t'), declared.id, place('1'));
      const made = await catalog.publishCreation(creation, publicationOf('tx'));
      assert.deepEqual([made.location, made.state], ['1', 'created']);
      assert.notEqual(made.id, declared.id);
      assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
    });

    test('a declared table keeps its location when the create that was to fill it is abandoned', async () => {
      const declared = await catalog.declareTable(table('t'), place('1'), {});
      await catalog.abandonCreation(await catalog.reserveCreation(table('t'), declared.id, place('1')));
      assert.deepEqual((await catalog.unfinished()).discarded, []);
      assert.deepEqual(await catalog.findTable(table('t')), declared);
    });

    for (const files of ['discarded', 'left'] as const) {
      test(`a create keeps the place it writes to through a drop of the declared table that leaves its files ${files} (P1)`, async () => {
        const declared = await catalog.declareTable(table('t'), place('1'), {});
        const creation = await catalog.reserveCreation(table('t'), declared.id, place('1'));
        await catalog.dropTable(table('t'), undefined, files);
        assert.deepEqual((await catalog.unfinished()).discarded, []);
        await rejects(register(catalog, table('u'), place('1')), 'InvalidInput');
        await catalog.abandonCreation(creation);
        assert.deepEqual((await catalog.unfinished()).discarded, ['1']);
      });
    }

    test('a drop of the table that is being overwritten does not hinder the publication', async () => {
      const old = await createTable(catalog, table('t'), place('old'));
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
      await createTable(catalog, table('t'), place('2'));
    });

    test('abandoning again does nothing, whatever became of the location', async () => {
      const abandoned = await catalog.reserveCreation(table('a'), undefined, place('1'));
      await catalog.abandonCreation(abandoned);
      await catalog.forgetDiscarded(place('1'));
      const published = await catalog.reserveCreation(table('b'), undefined, place('2'));
      await catalog.publishCreation(published, publicationOf('tx'));
      await catalog.dropTable(table('b'), undefined, 'left');
      for (const creation of [abandoned, published]) await catalog.abandonCreation(creation);
      assert.deepEqual(await catalog.unfinished(), { creations: [], discarded: [] });
    });

    test('a create that was abandoned or published cannot be published (P1)', async () => {
      await catalog.createNamespace(path('n'), {});
      const publish = (creation: Creation, id = 'first') =>
        catalog.publishCreation(creation, publicationOf(`${id}-${creation.id}`));
      const published = await catalog.reserveCreation(table('n', 't'), undefined, place('1'));
      const made = await publish(published);
      await rejects(publish(published, 'second'), 'ConcurrentCreate');
      assert.deepEqual(await publish(published), made, 'the same publication, again after a lost answer');
      assert.deepEqual(await catalog.findTable(table('n', 't')), made);
      await catalog.dropTable(table('n', 't'));
      await rejects(publish(published), 'ConcurrentCreate');
      const abandoned = await catalog.reserveCreation(table('n', 't'), undefined, place('2'));
      await catalog.abandonCreation(abandoned);
      await rejects(publish(abandoned), 'ConcurrentCreate');
      await catalog.dropNamespace(path('n'));
      await rejects(publish(abandoned), 'NamespaceNotFound');
    });
  });
}
