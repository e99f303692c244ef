import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { ReadWriteLock } from '#src/kernel/read-write-lock.ts';

const never = new AbortController().signal;
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test('the lock is granted in the order of arrival, and no waiter overtakes one for the exclusive lock (P5, P10)', async () => {
  const lock = new ReadWriteLock(10, 'writers');
  const order: string[] = [];
  const enter = async (name: string, mode: 'shared' | 'exclusive') => {
    const release = await lock.acquire(mode, never);
    order.push(name);
    return release;
  };
  const first = await enter('first', 'shared');
  const second = enter('second', 'exclusive');
  const third = enter('third', 'shared');
  const fourth = enter('fourth', 'shared');
  await settled();
  assert.deepEqual(order, ['first']);
  first();
  const releaseSecond = await second;
  await settled();
  assert.deepEqual(order, ['first', 'second']);
  releaseSecond();
  await Promise.all([third, fourth]);
  assert.deepEqual(order, ['first', 'second', 'third', 'fourth']);
});

test('one who leaves the queue lets those behind pass', async () => {
  const lock = new ReadWriteLock(10, 'writers');
  const release = await lock.acquire('shared', never);
  const leaver = new AbortController();
  const exclusive = lock.acquire('exclusive', leaver.signal);
  const behind = lock.acquire('shared', never);
  const reason = new LancegateError('TimedOut', 'gone');
  leaver.abort(reason);
  await assert.rejects(exclusive, reason);
  (await behind)();
  release();
  assert.equal(lock.isIdle, true);
});

test('a full queue answers "slow down" at once (P7)', async () => {
  const lock = new ReadWriteLock(1, 'writers');
  const release = await lock.acquire('exclusive', never);
  const waiting = lock.acquire('exclusive', never);
  await assert.rejects(lock.acquire('exclusive', never), {
    ...{ kind: 'SlowDown', retryAfterSeconds: 1 },
    message: 'too many writers wait already',
  });
  release();
  (await waiting)();
});

test('a release that is called twice gives one turn back', async () => {
  const lock = new ReadWriteLock(4, 'writers');
  const first = await lock.acquire('exclusive', never);
  const second = lock.acquire('exclusive', never);
  const third = lock.acquire('exclusive', never);
  first();
  first();
  const releaseSecond = await second;
  let thirdHasIt = false;
  void third.then(() => {
    thirdHasIt = true;
  });
  await settled();
  assert.equal(thirdHasIt, false);
  releaseSecond();
  (await third)();
});

test('waiters for the exclusive lock are counted until they hold it or leave; others are not', async () => {
  const lock = new ReadWriteLock(4, 'writers');
  const release = await lock.acquire('shared', never);
  const leaver = new AbortController();
  const left = lock.acquire('exclusive', leaver.signal);
  const exclusive = lock.acquire('exclusive', never);
  const behind = lock.acquire('shared', never);
  assert.equal(lock.waitingExclusive, 2);
  const reason = new LancegateError('TimedOut', 'gone');
  leaver.abort(reason);
  await assert.rejects(left, reason);
  assert.equal(lock.waitingExclusive, 1);
  release();
  (await exclusive)();
  (await behind)();
  assert.equal(lock.waitingExclusive, 0);
});
