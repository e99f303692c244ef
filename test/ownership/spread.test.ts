/** Which replica names go to, so that each owns its share. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { successorsOfSurplus } from '#src/ownership/placement.ts';
import { table } from '#test/contract/catalog/fixtures.ts';
import { cluster, forwarded, type Joined, ownerOf } from './joined-replicas.ts';

const replicas = (...ids: readonly string[]) =>
  ids.map((id) => ({ id, address: `http://${id}`, isLeaving: id.endsWith('leaving') }));

test('a replica that joins gets its share of what is idle, and then no name moves', async (t) => {
  const { join, pass } = await cluster(t);
  const a = await join('a');
  const names = Array.from({ length: 12 }, (_, index) => table(`t${index}`));
  for (const name of names) {
    await ownerOf(a, name);
    await a.declare(name);
  }
  const b = await join('b');
  await pass(12_000);
  for (const name of names) assert.equal(await ownerOf(a, name), await ownerOf(b, name));
  const owned = ({ owners }: Joined) => names.filter((name) => owners.isOwn(name)).length;
  assert.deepEqual([owned(a), owned(b)], [6, 6]);
  await pass(60_000);
  assert.equal(a.did.length + b.did.length, 6);
});

test('a table that cannot move for what is under way is tried again after seconds, not each second (P10)', async (t) => {
  const { join, pass } = await cluster(t);
  const a = await join('a');
  for (const name of ['t', 'u']) {
    await ownerOf(a, table(name));
    await a.declare(table(name));
  }
  a.handOver.how = async () => 'busy';
  await join('b');
  await pass(20_000);
  assert.ok(a.did.length >= 4 && a.did.length <= 8, `${a.did.length} attempts for two tables in 20 s`);
});

test('what a replica owns beyond its share goes to those that own least', () => {
  const owned = new Map([
    ['a', 10],
    ['b', 6],
    ['c', 4],
  ]);
  const all = replicas('a', 'b', 'c');
  assert.deepEqual(successorsOfSurplus('a', owned, all), ['c', 'c', 'b']);
  assert.deepEqual(successorsOfSurplus('b', owned, all), []);
  assert.deepEqual(successorsOfSurplus('c', owned, all), []);
});

test('a replica that owns nothing yet is given its share, and one that leaves is given nothing', () => {
  const owned = new Map([
    ['a', 2],
    ['leaving', 0],
  ]);
  assert.deepEqual(successorsOfSurplus('a', owned, replicas('a', 'b', 'leaving')), ['b']);
  assert.deepEqual(successorsOfSurplus('a', owned, replicas('a', 'leaving')), []);
});

test('of many names a few more than its share stay with a replica', () => {
  const ofA = (count: number) =>
    successorsOfSurplus(
      'a',
      new Map([
        ['a', count],
        ['b', 200 - count],
      ]),
      replicas('a', 'b'),
    );
  assert.deepEqual([ofA(110).length, ofA(111).length], [0, 11]);
});

test('a name that is given to a replica which leaves is for the next that is asked', async (t) => {
  const { join, pass } = await cluster(t);
  const [a, b, c] = [await join('a'), await join('b'), await join('c')];
  await pass(1_000);
  const given = await a.catalog.claimName(table('t'), 'a');
  assert.ok('epoch' in given);
  await b.owners.leave();
  await a.catalog.releaseName({ ref: table('t'), epoch: given.epoch }, 'a', true, 'b');
  const next = await ownerOf(b, table('t'), forwarded);
  assert.notEqual(next, 'b');
  assert.equal(await ownerOf(next === 'a' ? a : c, table('t'), forwarded), next);
  assert.equal((await b.catalog.findOwner(table('t')))?.id, next);
});

test('a work gets a name that was given to a replica which has not claimed it', async (t) => {
  const { join, until } = await cluster(t);
  const [a, , c] = [await join('a'), await join('b'), await join('c')];
  await ownerOf(a, table('t'), forwarded);
  await a.declare(table('t'));
  const given = await a.catalog.claimName(table('t'), 'a');
  assert.ok('epoch' in given);
  await a.catalog.releaseName({ ref: table('t'), epoch: given.epoch }, 'a', true, 'b');
  await until(c.owners.acquire([table('t')], neverAborts));
  assert.equal(c.owners.isOwn(table('t')), true);
});
