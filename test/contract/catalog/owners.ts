import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { OwnedName, SharedCatalog } from '#src/catalog/replica-port.ts';
import type { TableRef } from '#src/kernel/ids.ts';
import { NamesHere } from '#src/ownership/names-here.ts';
import { createTable, place, publicationOf, rejects, table, transactionOf } from './fixtures.ts';

/** One database, and the catalog as each of several replicas has it. */
export interface SharedDatabase {
  catalogOf(names: NamesHere): Promise<SharedCatalog>;
  close(): Promise<void>;
}

interface ReplicaOfTest {
  readonly catalog: SharedCatalog;
  readonly names: NamesHere;
}

const alive = 60_000;
const expired = -1;

export function ownersContract(open: () => Promise<SharedDatabase>): void {
  describe('owners of names', () => {
    let database: SharedDatabase;
    beforeEach(async () => {
      database = await open();
    });
    afterEach(() => database.close());

    const join = async (id: string, durationMs = alive): Promise<ReplicaOfTest> => {
      const names = new NamesHere(id);
      const catalog = await database.catalogOf(names);
      await catalog.renewLease({ replica: id, address: `http://${id}`, isLeaving: false, durationMs });
      return { catalog, names };
    };
    const claim = async (
      { catalog, names }: ReplicaOfTest,
      ref: TableRef,
    ): Promise<OwnedName & { isSettled: boolean }> => {
      const claimed = await catalog.claimName(ref, names.replica);
      assert.ok('epoch' in claimed, 'the name is claimed');
      names.add({ ref, epoch: claimed.epoch });
      return { ref, ...claimed };
    };
    const expire = ({ catalog, names: { replica } }: ReplicaOfTest) =>
      catalog.renewLease({ replica, address: `http://${replica}`, isLeaving: false, durationMs: expired });

    test('of 32 claims at once one wins, and the others learn who it is (P5)', async () => {
      const replicas = await Promise.all(Array.from({ length: 32 }, (_, index) => join(`r${index}`)));
      const claims = await Promise.all(
        replicas.map(({ catalog, names }) => catalog.claimName(table('t'), names.replica)),
      );
      const winners = replicas.filter((_, index) => 'epoch' in claims[index]!);
      assert.equal(winners.length, 1);
      const owner = await replicas[0]!.catalog.findOwner(table('t'));
      assert.equal(owner?.id, winners[0]!.names.replica);
      const losers = claims.filter((each) => 'id' in each);
      assert.deepEqual(
        losers,
        Array.from({ length: 31 }, () => owner),
      );
    });

    test('a name is claimed from a replica whose lease has expired, with another epoch, and from no other', async () => {
      const [one, two] = [await join('one'), await join('two')];
      const first = await claim(one, table('t'));
      assert.deepEqual(await two.catalog.claimName(table('t'), 'two'), { id: 'one', address: 'http://one' });
      await expire(one);
      assert.equal(await two.catalog.findOwner(table('t')), undefined);
      assert.equal(await one.catalog.isOwner(first, 'one'), false);
      const second = await claim(two, table('t'));
      assert.deepEqual([second.epoch, second.isSettled], [first.epoch + 1, false]);
      assert.equal(await two.catalog.isOwner(second, 'two'), true);
    });

    test('a replica that was frozen and finds its name unclaimed goes on', async () => {
      const one = await join('one');
      const name = await claim(one, table('t'));
      await expire(one);
      await join('one');
      assert.equal(await one.catalog.isOwner(name, 'one'), true);
      assert.deepEqual(await one.catalog.namesOf('one', 'all'), [{ ref: name.ref, epoch: name.epoch }]);
    });

    test('a name that was handed over in order has nothing to undo, one that was not has', async () => {
      const [one, two] = [await join('one'), await join('two')];
      assert.equal((await claim(one, table('t'))).isSettled, true, 'nobody owned it before');
      const again = await claim(one, table('t'));
      assert.equal(again.isSettled, false, 'what this replica did before it is not known');
      await one.catalog.releaseName({ ...again, epoch: again.epoch - 1 }, 'one', true);
      assert.equal((await two.catalog.findOwner(table('t')))?.id, 'one', 'an earlier epoch releases nothing');
      await one.catalog.releaseName(again, 'one', true);
      assert.deepEqual(await two.catalog.unsettledNames(9), []);
      const taken = await claim(two, table('t'));
      assert.equal(taken.isSettled, true);
      await two.catalog.releaseName(taken, 'two', false);
      assert.deepEqual(await one.catalog.unsettledNames(9), [table('t')]);
      assert.equal((await claim(one, table('t'))).isSettled, false);
      await expire(one);
      assert.deepEqual(await two.catalog.unsettledNames(9), [table('t')]);
    });

    test("a name that was handed over in order to a replica is that replica's, with nothing to undo", async () => {
      const [one, two] = [await join('one'), await join('two')];
      const given = await claim(one, table('t'));
      await claim(one, table('u'));
      await one.catalog.releaseName(given, 'one', true, 'two');
      assert.deepEqual(
        await one.catalog.countNames(),
        new Map([
          ['one', 1],
          ['two', 1],
        ]),
      );
      assert.deepEqual(await one.catalog.claimName(table('t'), 'one'), { id: 'two', address: 'http://two' });
      const taken = await claim(two, table('t'));
      assert.deepEqual([taken.isSettled, taken.epoch], [true, given.epoch + 1]);
      await two.catalog.releaseName(taken, 'two', false, 'one');
      assert.deepEqual(await one.catalog.unsettledNames(9), [table('t')], "with something to undo it is anybody's");
    });

    test('a name that was handed over to a replica that ended before it claimed it has nothing to undo', async () => {
      const [one, two] = [await join('one'), await join('two')];
      await one.catalog.releaseName(await claim(one, table('t')), 'one', true, 'two');
      await expire(two);
      assert.equal((await claim(one, table('t'))).isSettled, true);
    });

    test('an owner learns which of its names others have asked for', async () => {
      const [one, two] = [await join('one'), await join('two')];
      const name = await claim(one, table('t'));
      await claim(one, table('u'));
      await two.catalog.wantNames([table('t'), table('unknown')], 'two');
      assert.deepEqual(await one.catalog.namesOf('one', 'wanted'), [{ ref: name.ref, epoch: name.epoch }]);
      await one.catalog.releaseName(name, 'one', true);
      await claim(two, table('t'));
      assert.deepEqual(await two.catalog.namesOf('two', 'wanted'), []);
    });

    test("a name that another replica has asked for is that replica's when it is handed over in order", async () => {
      const [one, two] = [await join('one'), await join('two')];
      const [given, named, unsettled] = [table('given'), table('named'), table('unsettled')];
      const claims = [await claim(one, given), await claim(one, named), await claim(one, unsettled)] as const;
      await two.catalog.wantNames([given, named, unsettled], 'two');
      await one.catalog.releaseName(claims[0], 'one', true);
      await one.catalog.releaseName(claims[1], 'one', true, 'one');
      await one.catalog.releaseName(claims[2], 'one', false);
      const ownerIds = await Promise.all(
        [given, named, unsettled].map(async (ref) => (await one.catalog.findOwner(ref))?.id),
      );
      assert.deepEqual(ownerIds, ['two', 'one', undefined]);
    });

    test('a name that nothing has and nobody owns is forgotten, and no epoch of it comes again (P6)', async () => {
      const [one, two] = [await join('one'), await join('two')];
      const [used, left, unsettled] = [table('used'), table('left'), table('unsettled')];
      const first = await claim(one, left);
      await claim(one, used);
      await createTable(one.catalog, used, place('1'));
      assert.deepEqual(
        (await one.catalog.namesOf('one', 'unused')).map(({ ref }) => ref),
        [left],
      );
      await one.catalog.forgetUnusedNames();
      assert.equal(await one.catalog.isOwner(first, 'one'), true, 'somebody owns it');
      await one.catalog.releaseName(first, 'one', true);
      await one.catalog.releaseName(await claim(one, unsettled), 'one', false);
      await one.catalog.releaseName(await claim(one, table('given')), 'one', true, 'two');
      await two.catalog.forgetUnusedNames();
      assert.deepEqual(await two.catalog.unsettledNames(9), [unsettled]);
      assert.equal(
        (await two.catalog.countNames()).has('two'),
        false,
        'a replica that was given it has not claimed it',
      );
      const again = await claim(two, left);
      assert.deepEqual([again.isSettled, again.epoch > first.epoch], [true, true]);
    });

    test('replicas are seen while their leases last', async () => {
      const one = await join('one');
      await join('gone', expired);
      await one.catalog.renewLease({ replica: 'two', address: 'http://two', isLeaving: true, durationMs: alive });
      assert.deepEqual(await one.catalog.liveReplicas(), [
        { id: 'one', address: 'http://one', isLeaving: false },
        { id: 'two', address: 'http://two', isLeaving: true },
      ]);
      await one.catalog.forgetEndedReplicas();
      await one.catalog.endLease('two');
      assert.deepEqual(
        (await one.catalog.liveReplicas()).map(({ id }) => id),
        ['one'],
      );
    });

    test('the first of 16 storage roots at once is remembered, and all replicas are told', async () => {
      const replicas = await Promise.all(Array.from({ length: 16 }, (_, index) => join(`r${index}`)));
      const told = await Promise.all(replicas.map(({ catalog }, index) => catalog.agreeOnRoot(`s3://bucket/${index}`)));
      assert.equal(new Set(told).size, 1);
      assert.equal(await replicas[0]!.catalog.agreeOnRoot('/elsewhere'), told[0]);
    });

    test('the storage root is moved from where it is, while no other replica lives', async () => {
      const [one, two] = [await join('one'), await join('two')];
      const root = (): Promise<string> => one.catalog.agreeOnRoot('/old');
      assert.equal(await root(), '/old');
      const move = { from: '/old', to: '/new', replica: 'one' };
      const living = await one.catalog.moveRoot(move);
      assert.deepEqual(
        living.map(({ id }) => id),
        ['two'],
      );
      assert.equal(await root(), '/old');
      await expire(two);
      assert.deepEqual(await one.catalog.moveRoot({ ...move, from: '/other' }), []);
      assert.equal(await root(), '/old');
      assert.deepEqual(await one.catalog.moveRoot(move), []);
      assert.equal(await root(), '/new');
    });

    describe('once another replica has claimed a name, its last owner', () => {
      const ref = table('t');
      let zombie: ReplicaOfTest;
      let owner: ReplicaOfTest;
      let tableId: Awaited<ReturnType<typeof createTable>>['id'];
      beforeEach(async () => {
        [zombie, owner] = [await join('zombie'), await join('owner')];
        await claim(zombie, ref);
        tableId = (await createTable(zombie.catalog, ref, place('1'))).id;
        await expire(zombie);
        await claim(owner, ref);
      });
      const mark = { branch: undefined, acknowledgedVersion: 3, storageSession: 's' };
      const keyed = { owner: 'o' as never, key: 'k' as never, requestDigest: '', bodyDigest: '', attempt: 'a' };

      test('records no transaction, answer or write intent (P6)', async () => {
        const answer = { ...keyed, askedAtMs: 0, expiresAtMs: 9, answer: '{}' };
        await rejects(zombie.catalog.recordTransactions([transactionOf('1', { ref })], [answer]), 'WriterMoved');
        const intent = { ...keyed, askedAtMs: 0, expiresAtMs: 9, tableId, ref, branch: undefined, baseVersion: 1 };
        await rejects(zombie.catalog.recordIntents([intent]), 'WriterMoved');
        await rejects(zombie.catalog.withdrawIntent(intent), 'WriterMoved');
        assert.equal(await owner.catalog.findTransaction('1' as never), undefined);
        assert.equal(await owner.catalog.findKeyed('o' as never, 'k' as never), undefined);
      });

      test('neither publishes, drops, renames, declares nor registers (P1)', async () => {
        await rejects(zombie.catalog.reserveCreation(ref, tableId, place('2')), 'WriterMoved');
        const creation = await owner.catalog.reserveCreation(ref, tableId, place('2'));
        await rejects(zombie.catalog.publishCreation(creation, publicationOf('p')), 'WriterMoved');
        await owner.catalog.abandonCreation(creation);
        await rejects(zombie.catalog.dropTable(ref), 'WriterMoved');
        await rejects(zombie.catalog.dropTable(ref, undefined, 'left'), 'WriterMoved');
        await rejects(zombie.catalog.renameTable(ref, table('u')), 'WriterMoved');
        await rejects(zombie.catalog.declareTable(table('never claimed'), place('3'), {}), 'WriterMoved');
        assert.equal((await owner.catalog.findTable(ref))?.id, tableId);
      });

      test('neither sets nor closes recovery marks (P1)', async () => {
        await owner.catalog.markOpenForWriting({ tableId, ...mark });
        await rejects(zombie.catalog.markOpenForWriting({ tableId, ...mark, acknowledgedVersion: 1 }), 'WriterMoved');
        await rejects(zombie.catalog.acknowledgeVersion(tableId, undefined, 9), 'WriterMoved');
        await rejects(zombie.catalog.closeBranch(tableId, undefined), 'WriterMoved');
        assert.deepEqual(
          (await owner.catalog.recoveryMarks(ref)).map(({ acknowledgedVersion }) => acknowledgedVersion),
          [3],
        );
      });
    });
  });
}
