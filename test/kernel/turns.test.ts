import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { Turns } from '#src/kernel/turns.ts';

const never = new AbortController().signal;
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test('turns are given in the order they were asked for, and nobody overtakes one who waits to be alone (P5, P10)', async () => {
  const turns = new Turns(10);
  const order: string[] = [];
  const enter = async (name: string, mode: 'shared' | 'alone') => {
    const release = await turns.take(mode, never);
    order.push(name);
    return release;
  };
  const first = await enter('first', 'shared');
  const second = enter('second', 'alone');
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
  const turns = new Turns(10);
  const release = await turns.take('shared', never);
  const leaver = new AbortController();
  const alone = turns.take('alone', leaver.signal);
  const behind = turns.take('shared', never);
  const reason = new LancegateError('TimedOut', 'gone');
  leaver.abort(reason);
  await assert.rejects(alone, reason);
  (await behind)();
  release();
  assert.equal(turns.isIdle, true);
});

test('a full queue answers "slow down" at once (P7)', async () => {
  const turns = new Turns(1);
  const release = await turns.take('alone', never);
  const waiting = turns.take('alone', never);
  await assert.rejects(turns.take('alone', never), { kind: 'SlowDown', retryAfterSeconds: 1 });
  release();
  (await waiting)();
});

test('a release that is called twice gives one turn back', async () => {
  const turns = new Turns(4);
  const first = await turns.take('alone', never);
  const second = turns.take('alone', never);
  const third = turns.take('alone', never);
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

test('who waits to be alone is counted until it has its turn or leaves; others are not', async () => {
  const turns = new Turns(4);
  const release = await turns.take('shared', never);
  const leaver = new AbortController();
  const left = turns.take('alone', leaver.signal);
  const alone = turns.take('alone', never);
  const behind = turns.take('shared', never);
  assert.equal(turns.waitingAlone, 2);
  const reason = new LancegateError('TimedOut', 'gone');
  leaver.abort(reason);
  await assert.rejects(left, reason);
  assert.equal(turns.waitingAlone, 1);
  release();
  (await alone)();
  (await behind)();
  assert.equal(turns.waitingAlone, 0);
});
