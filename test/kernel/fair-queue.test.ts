import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { FairQueue } from '#src/kernel/fair-queue.ts';

const never = new AbortController().signal;
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
const slowDown = (message: string) => ({ kind: 'SlowDown', message });

/** A queue, and who holds a slot of it in the order in which they got one, with what gives it back. */
function queueOf(slots: number, { maxWaiting = 100, principalShare = 0.5 } = {}) {
  const queue = new FairQueue({ slots, maxWaiting, principalShare, waiters: 'builds' });
  const order: string[] = [];
  const releases = new Map<string, () => void>();
  const take = async (name: string, principal: string, work = 'count', signal = never) => {
    releases.set(name, await queue.take({ principal, work }, signal));
    order.push(name);
  };
  const release = async (name: string) => {
    releases.get(name)?.();
    await settled();
  };
  return { queue, order, take, release };
}

test('a principal has its share of the slots, however many it asks for, and another finds one (P10)', async () => {
  const { order, take, release } = queueOf(4);
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) void take(name, 'a');
  await settled();
  assert.deepEqual(order, ['a1', 'a2']);
  void take('b1', 'b');
  await settled();
  assert.deepEqual(order, ['a1', 'a2', 'b1']);
  await release('b1');
  assert.deepEqual(order, ['a1', 'a2', 'b1']);
  await release('a1');
  assert.deepEqual(order, ['a1', 'a2', 'b1', 'a3']);
});

test('principals that wait take turns, one by one (P10)', async () => {
  const { order, take, release } = queueOf(1, { principalShare: 1 });
  for (const name of ['a1', 'a2', 'a3']) void take(name, 'a');
  for (const name of ['b1', 'b2']) void take(name, 'b');
  await settled();
  for (const name of ['a1', 'a2', 'b1', 'a3']) await release(name);
  assert.deepEqual(order, ['a1', 'a2', 'b1', 'a3', 'b2']);
});

test('one kind of work leaves a slot for the other, which passes those of its own principal that wait (P10)', async () => {
  const { order, take, release } = queueOf(4, { principalShare: 1 });
  for (const name of ['c1', 'c2', 'c3', 'c4']) void take(name, 'a', 'count');
  await settled();
  assert.deepEqual(order, ['c1', 'c2', 'c3']);
  void take('m1', 'a', 'merge');
  await settled();
  assert.deepEqual(order, ['c1', 'c2', 'c3', 'm1']);
  await release('c2');
  assert.deepEqual(order, ['c1', 'c2', 'c3', 'm1', 'c4']);
});

test('a principal whose work of one kind takes long has its share for the other, and another finds a slot (P10)', async () => {
  const { order, take, release } = queueOf(4);
  for (const name of ['c1', 'c2', 'c3']) void take(name, 'a', 'count');
  for (const name of ['m1', 'm2']) void take(name, 'a', 'merge');
  await settled();
  assert.deepEqual(order, ['c1', 'c2', 'm1']);
  void take('b1', 'b', 'count');
  await settled();
  assert.deepEqual(order, ['c1', 'c2', 'm1', 'b1']);
  await release('b1');
  await release('m1');
  assert.deepEqual(order, ['c1', 'c2', 'm1', 'b1', 'm2']);
});

test('with two slots a principal has one for each kind of work (P10)', async () => {
  const { order, take } = queueOf(2);
  for (const name of ['c1', 'c2']) void take(name, 'a', 'count');
  for (const name of ['m1', 'm2']) void take(name, 'a', 'merge');
  await settled();
  assert.deepEqual(order, ['c1', 'm1']);
});

test('with one slot every principal has it in turn', async () => {
  const { order, take, release } = queueOf(1);
  void take('c', 'a', 'count');
  void take('m', 'a', 'merge');
  await settled();
  await release('c');
  assert.deepEqual(order, ['c', 'm']);
});

test('a full queue refuses at once, and a principal that has its share of the waiting sooner (P7, P10)', async () => {
  const { queue, take } = queueOf(1, { maxWaiting: 4 });
  void take('running', 'a');
  void take('a1', 'a');
  void take('a2', 'a');
  await settled();
  await assert.rejects(take('a3', 'a'), slowDown('too many builds of this principal wait already'));
  void take('b1', 'b');
  void take('b2', 'b');
  await settled();
  await assert.rejects(take('c1', 'c'), slowDown('too many builds wait already'));
  assert.equal(queue.waiting, 4);
});

test('a request that leaves makes room for others, and gets no slot', async () => {
  const { queue, order, take, release } = queueOf(1, { maxWaiting: 2 });
  void take('first', 'a');
  const leaver = new AbortController();
  const left = take('left', 'b', 'count', leaver.signal);
  void take('second', 'c');
  await settled();
  const reason = new LancegateError('TimedOut', 'gone');
  leaver.abort(reason);
  await assert.rejects(left, reason);
  assert.equal(queue.waiting, 1);
  await release('first');
  await release('second');
  assert.deepEqual(order, ['first', 'second']);
  assert.equal(queue.running, 0);
});
