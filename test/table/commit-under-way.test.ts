/** A commit that follows one that is under way (docs/design/commit.md). On an object store: test/cluster/overlapping-writes.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KeyedRequest } from '#src/catalog/port.ts';
import { CommitUnderWay } from '#src/write/write.ts';
import { sendUntilDirectCommit } from './direct-commits.ts';
import { full } from './rows.ts';
import { byAppending, location, Stage } from './stage.ts';

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
};

test('a commit that was not made is tried again when the one that follows it has let go, and that one when it is done (P2)', async () => {
  const first = new CommitUnderWay(undefined);
  const second = new CommitUnderWay(first);
  const order: string[] = [];
  const triedAgain = first.attempted(false).then(() => order.push('first tries again'));
  await turns();
  assert.deepEqual([order, first.canBeFollowed], [[], false]);
  const secondTries = second.attempted(false).then(() => order.push('second tries again'));
  await triedAgain;
  await turns();
  first.end();
  await secondTries;
  assert.deepEqual(order, ['first tries again', 'second tries again']);
});

test('a commit that was not made does not wait for one that ended before its first attempt, as on a full disk (P6)', async () => {
  const first = new CommitUnderWay(undefined);
  new CommitUnderWay(first).end();
  assert.equal(await Promise.race([first.attempted(false), turns().then(() => 'waits')]), undefined);
});

test('a commit is not made where the one that it follows was not, whoever owns the table (P1)', async () => {
  const first = new CommitUnderWay(undefined);
  const second = new CommitUnderWay(first);
  const isNext = second.turn({ version: 2 } as never, async () => undefined).isNext();
  void first.attempted(false);
  assert.equal(await isNext, false);
});

test('a commit by row address follows no version that a reader has found since the ownership was confirmed (P1)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']), { hasKeyIndex: true });
  await sendUntilDirectCommit(stage, () => stage.request(full([1, 'old'])));
  let looks = 0;
  stage.betweenLookAndCommit = async () => {
    looks += 1;
    if (looks > 1) return;
    await byAppending(stage, full([2, 'past the gate']))();
    await stage.datasets.latest(location, undefined);
  };
  const keyed = {
    owner: 'o',
    key: 'k',
    requestDigest: 'd',
    bodyDigest: 'd',
    expiresAtMs: 0,
  } as unknown as KeyedRequest;
  await stage.merge({ ...(await stage.request(full([1, 'new'], [2, 'new']))), keyed });
  assert.equal(looks, 2);
  assert.deepEqual(await stage.rows(), ['1:new', '2:new']);
});
