/** Which replica acts as the owner of a name, over time: with real queries, and clocks that the test moves. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { SharedCatalog } from '#src/catalog/replica-port.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { table } from '#test/contract/catalog/fixtures.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { cluster, forwarded, type Joined, ownerOf, refusalOf, turns } from './joined-replicas.ts';

test('all replicas name the same one for a name, and it claims it when it is asked', async (t) => {
  const { join, pass } = await cluster(t);
  const replicas = [await join('a'), await join('b'), await join('c')];
  await pass(1_000);
  assert.deepEqual(
    replicas[0]!.owners.others().map(({ id }) => id),
    ['b', 'c'],
  );
  for (const name of ['t1', 't2', 't3', 't4', 't5']) {
    const named = await Promise.all(replicas.map((replica) => ownerOf(replica, table(name))));
    assert.equal(new Set(named).size, 1);
    assert.deepEqual(
      replicas.filter(({ owners }) => owners.isOwn(table(name))).map(({ id }) => id),
      [named[0]],
    );
  }
});

/** `a` owns the table and has stood still beyond its lease. */
async function frozenOwner(t: TestContext) {
  const { join, pass, frozen } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  frozen.add('a');
  await pass(5_000);
  return { a, b, pass, frozen };
}

test('requests at once claim a name once', async (t) => {
  const { b } = await frozenOwner(t);
  await Promise.all(Array.from({ length: 8 }, () => ownerOf(b, table('t'), { mustClaim: true, isRepeated: true })));
  await Promise.all(Array.from({ length: 8 }, () => b.owners.hold(table('t'))));
  assert.deepEqual(b.did, ['takes over t']);
});

test('a name that nobody owns is claimed by the replica that a request was forwarded to', async (t) => {
  const { join } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  const other = (await ownerOf(a, table('t'))) === 'a' ? b : a;
  const free = table('u');
  assert.equal(await ownerOf(other, free, forwarded), other.id);
  assert.equal(await ownerOf(other === a ? b : a, free), other.id);
});

test('nothing is claimed of a name that nothing has, save for what makes a table of it (P7)', async (t) => {
  const { join } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  const [ghost, real] = [table('ghost'), table('real')];
  const existing = { mustClaim: false, mustExist: true };
  for (const replica of [a, b]) {
    assert.equal(await ownerOf(replica, ghost, existing), replica.id, 'each says itself that there is none');
    assert.equal(await ownerOf(replica, ghost, { ...existing, mustClaim: true }), replica.id);
  }
  assert.deepEqual([...(await a.catalog.countNames())], []);
  const maker = (await ownerOf(a, real)) === 'a' ? a : b;
  await maker.declare(real);
  for (const replica of [a, b]) assert.equal(await ownerOf(replica, real, existing), maker.id);
  assert.deepEqual([...(await a.catalog.countNames())], [[maker.id, 1]]);
});

test('a killed owner is replaced within five seconds, and what it left is undone', async (t) => {
  const { join, pass, frozen } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  assert.equal(await ownerOf(a, table('t'), forwarded), 'a');
  frozen.add('a');
  await pass(3_500);
  assert.equal(await ownerOf(b, table('t')), 'a', 'the lease has not expired');
  await pass(1_500);
  assert.equal(await ownerOf(b, table('t'), { mustClaim: false, isRepeated: true }), 'b');
  assert.deepEqual(b.did, ['takes over t']);
});

test('what a killed replica left is taken over although nobody asks for it', async (t) => {
  const { join, pass, frozen } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  await a.declare(table('t'));
  frozen.add('a');
  await pass(12_000);
  assert.deepEqual(b.did, ['takes over t']);
});

test('a name that nothing has any more is left, and the catalog keeps nothing of it (P7)', async (t) => {
  const { join, pass } = await cluster(t);
  const a = await join('a');
  const [kept, dropped, never] = [table('kept'), table('dropped'), table('never made')];
  for (const name of [kept, dropped, never]) await ownerOf(a, name);
  for (const name of [kept, dropped]) await a.declare(name);
  const first = (await a.catalog.namesOf('a', 'all')).find(({ ref }) => ref.name === dropped.name);
  await pass(9_000);
  await a.catalog.dropTable(dropped);
  assert.equal(a.owners.isOwn(never), false);
  await pass(4_000);
  assert.deepEqual(
    (await a.catalog.namesOf('a', 'all')).map(({ ref }) => ref),
    [kept],
  );
  const claim = await a.catalog.claimName(dropped, 'a');
  assert.ok('epoch' in claim && claim.isSettled);
  assert.ok(claim.epoch > first!.epoch + 1, 'the row is new, and no epoch comes again');
  assert.deepEqual([a.owners.isOwn(kept), a.owners.isOwn(dropped)], [true, false]);
});

test('an owner that was frozen begins nothing before it has looked, and has lost what another has claimed', async (t) => {
  const { a, b, pass, frozen } = await frozenOwner(t);
  await ownerOf(b, table('t'), forwarded);
  assert.equal(a.owners.isOwn(table('t')), true, 'it does not know');
  const asking = a.owners.hold(table('t'));
  assert.ok(asking, 'its lease is over by its own clock, so it asks');
  await refusalOf(asking);
  assert.equal(await refusalOf(a.owners.confirm(table('t'))), 'WriterMoved');
  assert.equal(a.owners.isOwn(table('t')), false);
  frozen.delete('a');
  await pass(1_500);
  assert.equal(await refusalOf(a.owners.hold(table('t'))), 'WriterMoved');
  assert.equal(await ownerOf(a, table('t')), 'b');
});

test('an owner that was frozen learns what it has lost when it renews its lease, and goes on with the rest', async (t) => {
  const { join, pass, frozen } = await cluster(t);
  const a = await join('a');
  for (const name of ['lost', 'kept']) await ownerOf(a, table(name));
  frozen.add('a');
  await pass(5_000);
  const b = await join('b');
  await ownerOf(b, table('lost'), forwarded);
  frozen.delete('a');
  await pass(1_500);
  assert.deepEqual([a.owners.isOwn(table('lost')), a.owners.isOwn(table('kept'))], [false, true]);
  assert.equal(a.owners.hold(table('kept')), undefined);
  await a.owners.confirm(table('kept'));
  assert.deepEqual([a.did, b.did], [[], ['takes over lost']]);
});

test('without the catalog an owner goes on until its lease is over, and again when the catalog answers', async (t) => {
  const { join, pass } = await cluster(t);
  let isLost = false;
  const a = await join('a', (catalog) =>
    replacing<SharedCatalog>(catalog, {
      renewLease: async (lease) => {
        if (isLost) throw new LancegateError('CatalogUnavailable', 'lost');
        await catalog.renewLease(lease);
      },
    }),
  );
  await ownerOf(a, table('t'));
  isLost = true;
  await pass(1_500);
  assert.equal(a.owners.hold(table('t')), undefined);
  await pass(2_000);
  assert.equal(await refusalOf(a.owners.hold(table('t'))), 'CatalogUnavailable');
  isLost = false;
  await a.owners.hold(table('t'));
  assert.equal(a.owners.hold(table('t')), undefined);
});

test('a replica that leaves hands over in order, and the next owner has nothing to undo', async (t) => {
  const { join, pass, until } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  await until(a.owners.leave());
  assert.deepEqual(a.did, ['hands over t']);
  await pass(1_000);
  assert.equal(await ownerOf(a, table('t')), 'b', 'the replica that leaves names another');
  assert.equal(await ownerOf(b, table('t')), 'b');
  assert.deepEqual(b.did, []);
  await a.owners.close();
});

test('a replica that leaves claims nothing back, for a request that waited meanwhile, or for any other', async (t) => {
  const { join, pass, until } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  const work = Promise.withResolvers<'settled'>();
  a.handOver.how = () => work.promise;
  const leaving = a.owners.leave();
  await turns();
  await pass(500);
  const [writing, asking] = [refusalOf(a.owners.hold(table('t'))), ownerOf(a, table('t'), forwarded)];
  work.resolve('settled');
  await until(leaving);
  assert.equal(await writing, 'WriterMoved');
  assert.equal(await asking, 'b');
  assert.equal(await refusalOf(a.owners.hold(table('u'))), 'WriterMoved');
  assert.equal(await ownerOf(a, table('t'), { mustClaim: false, isRepeated: true }), 'b');
  assert.equal(await ownerOf(b, table('t')), 'b');
});

test('the last replica that leaves serves its tables until it ends', async (t) => {
  const { join, until } = await cluster(t);
  const a = await join('a');
  await ownerOf(a, table('t'));
  await until(a.owners.leave());
  assert.equal(await ownerOf(a, table('t')), 'a');
});

test('a request that learnt who the owner is locks the table before that hands it over, and a later one waits', async (t) => {
  const { join, pass, until } = await cluster(t);
  const [a] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  const leaving = a.owners.leave();
  await turns();
  assert.deepEqual([a.owners.hold(table('t')), a.owners.isOwn(table('t'))], [undefined, true]);
  const asking = ownerOf(a, table('t'), forwarded);
  assert.equal(await Promise.race([asking, turns()]), undefined);
  assert.deepEqual(a.did, []);
  await pass(500);
  assert.deepEqual([await asking, a.did], ['b', ['hands over t']]);
  await until(leaving);
});

test('a name that was lost while it was handed over, and was claimed again, is kept', async (t) => {
  const { join, pass, until, frozen } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  const work = Promise.withResolvers<'settled'>();
  a.handOver.how = () => work.promise;
  const acquired = b.owners.acquire([table('t')], neverAborts);
  await pass(2_000);
  assert.deepEqual(a.did, ['hands over t']);
  frozen.add('a');
  (await until(acquired))[Symbol.dispose]();
  assert.equal(await refusalOf(a.owners.confirm(table('t'))), 'WriterMoved');
  await until(b.owners.leave());
  assert.equal(await ownerOf(a, table('t'), { mustClaim: true, isRepeated: true }), 'a');
  work.resolve('settled');
  await turns();
  assert.equal(a.owners.isOwn(table('t')), true);
  await a.owners.confirm(table('t'));
});

test('what cannot be ended in time when a replica leaves is taken over by the next owner at once', async (t) => {
  const { join, pass } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  a.handOver.how = (_, signal) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const leaving = a.owners.leave();
  await turns();
  await pass(1_500);
  await leaving;
  assert.equal(await ownerOf(b, table('t'), { mustClaim: false, isRepeated: true }), 'b');
  assert.deepEqual(b.did, ['takes over t']);
  a.handOver.how = async () => 'settled';
});

test('two living replicas with one address are named once by each, and a predecessor that died is not', async (t) => {
  const { join, pass, frozen, errors } = await cluster(t);
  const joinAt = (id: string, address: string) => join(id, (catalog) => catalog, address);
  await joinAt('dead', 'http://10.0.0.7:2333');
  frozen.add('dead');
  await joinAt('next', 'http://10.0.0.7:2333');
  await joinAt('elsewhere', 'http://10.0.0.8:2333');
  await pass(20_000);
  assert.deepEqual(errors, []);
  await joinAt('twin', 'http://10.0.0.7:2333/');
  await pass(4_000);
  assert.deepEqual(errors, []);
  await pass(20_000);
  const named = [
    { address: 'http://10.0.0.7:2333', replica: 'next', otherReplica: 'twin' },
    { address: 'http://10.0.0.7:2333/', replica: 'twin', otherReplica: 'next' },
  ];
  assert.deepEqual([errors.length, new Set(errors)], [2, new Set(named)]);
});

test('a replica forgets what it knew of a table before work of an earlier epoch can be confirmed again (P6)', async (t) => {
  const { a, b } = await frozenOwner(t);
  await ownerOf(b, table('t'), { mustClaim: true, isRepeated: true });
  assert.deepEqual(
    [...a.all, ...b.all],
    ['forgets t in epoch undefined', 'forgets t in epoch undefined', 'takes over t'],
  );
});

test('a replica that does not reach the storage is succeeded within a lease, and comes back (P11)', async (t) => {
  const { join, pass, until } = await cluster(t);
  const replicas = [await join('a'), await join('b')];
  await pass(1_000);
  const name = table('t');
  const ownerId = await ownerOf(replicas[0]!, name);
  const [owner, other] = replicas.toSorted((left) => (left.id === ownerId ? -1 : 1)) as [Joined, Joined];
  const silence = Promise.withResolvers<void>();
  owner.storage.reach = () => silence.promise;
  await pass(7_000);
  assert.equal(await until(ownerOf(other, name)), other.id);
  assert.equal(await until(ownerOf(owner, name)), other.id, 'it forwards to the next owner');
  assert.equal(await until(ownerOf(owner, table('u'))), other.id, 'and so it does what nobody owned');
  assert.equal(await until(refusalOf(owner.owners.hold(table('u')))), 'StorageUnavailable');
  owner.storage.reach = async () => {};
  silence.resolve();
  await pass(2_000);
  const names = Array.from({ length: 20 }, (_, index) => table(`n${index}`));
  const owners = await until(Promise.all(names.map((each) => ownerOf(other, each))));
  assert.deepEqual(new Set(owners), new Set(['a', 'b']));
});

test('a takeover that fails leaves the table to whoever comes next, with what is to be undone (P6)', async (t) => {
  const { join, pass, frozen } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  b.takeOver.how = () => Promise.reject(new LancegateError('StorageUnavailable', 'the store does not answer'));
  frozen.add('a');
  await pass(5_000);
  const asking = { mustClaim: true, isRepeated: true };
  assert.equal(await refusalOf(b.owners.ownerOf(table('t'), asking)), 'StorageUnavailable');
  assert.equal(b.owners.isOwn(table('t')), false);
  assert.equal(await refusalOf(b.owners.confirm(table('t'))), 'WriterMoved');
  frozen.delete('a');
  await pass(1_500);
  assert.equal(await ownerOf(a, table('t'), asking), 'a', 'no replica owns it');
  assert.deepEqual(a.did, ['takes over t']);
});

test('a table that is being created stays with its replica until that ends', async (t) => {
  const { join, pass, until } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  a.handOver.how = async () => 'busy';
  await until(a.owners.leave());
  assert.equal(a.owners.isOwn(table('t')), true);
  await pass(1_000);
  assert.equal(await ownerOf(b, table('t')), 'a');
  await until(a.owners.close());
  assert.equal(await ownerOf(b, table('t'), { mustClaim: false, isRepeated: true }), 'b');
  assert.deepEqual(b.did, ['takes over t']);
});

test('a replica without the storage says so as soon as a check failed, refuses reads with its lease, and heals', async (t) => {
  const { join, pass } = await cluster(t);
  const { owners, storage } = await join('a');
  const silence = Promise.withResolvers<void>();
  storage.reach = () => silence.promise;
  const missing = async () => [
    await refusalOf((async () => owners.requireStorage())()),
    await refusalOf(owners.whileStorageAnswers(async () => {})),
  ];
  const waiting = refusalOf(owners.whileStorageAnswers(() => silence.promise));
  await pass(2_500);
  assert.deepEqual(await missing(), [undefined, undefined], 'the storage has two seconds to answer');
  await pass(500);
  assert.deepEqual(await missing(), ['StorageUnavailable', undefined], 'one late answer ends no reads');
  await pass(3_000);
  assert.deepEqual(await missing(), ['StorageUnavailable', 'StorageUnavailable']);
  assert.equal(await waiting, 'StorageUnavailable', 'what waited for the storage waits no longer');
  await pass(500);
  const between = refusalOf(owners.hold(table('t'))); // asks the storage between two of the regular checks
  storage.reach = async () => {};
  await pass(1_000);
  assert.deepEqual(await missing(), [undefined, undefined]);
  for (let passedMs = 0; passedMs < 3_000; passedMs += 500) {
    await pass(500);
    assert.deepEqual(await missing(), [undefined, undefined], 'checks that were begun before say nothing any more');
  }
  assert.equal(await between, 'StorageUnavailable');
});

test('a replica without the storage knows who lives, and leaves in order', async (t) => {
  const { join, pass, until } = await cluster(t);
  const a = await join('a');
  a.storage.reach = () => Promise.reject(new Error('no route'));
  const b = await join('b');
  const idsOf = ({ owners }: Joined) => owners.others().map(({ id }) => id);
  await pass(6_000);
  assert.deepEqual([idsOf(a), idsOf(b)], [['b'], []]);
  await until(a.owners.leave());
  await pass(1_000);
  assert.deepEqual([idsOf(a), idsOf(b)], [['b'], ['a']]);
  const names = Array.from({ length: 8 }, (_, index) => table(`n${index}`));
  for (const name of names) assert.equal(await ownerOf(b, name), 'b');
});
