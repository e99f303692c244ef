import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { PacedQueue } from '#src/http/admission/admission.ts';

test('what is added runs at once or waits in line, in order, so many in each turn of the event loop (P7)', async () => {
  const queue = new PacedQueue(3);
  const ran: number[] = [];
  for (let i = 0; i < 8; i++) queue.add('a', () => ran.push(i));
  const seen = [ran.length];
  while (ran.length < 8) {
    await turn();
    seen.push(ran.length);
  }
  assert.deepEqual(ran, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(seen, [3, 6, 8]);
  queue.add('a', () => ran.push(8));
  assert.deepEqual([ran.at(-1), seen.length], [8, 3], 'one of the last turn was left');
});

test('who comes while others wait does not overtake them, nor is more done in a turn than was to be (P7)', async () => {
  const queue = new PacedQueue(2);
  const ran: string[] = [];
  const add = (lane: string, name: string) => queue.add(lane, () => ran.push(name));
  for (const name of ['1', '2', '3']) add('a', name);
  add('b', '4');
  assert.deepEqual(ran, ['1', '2']);
  await turn();
  add('a', '5');
  assert.deepEqual(ran, ['1', '2', '3', '4'], 'the turn was used up by those who waited');
  await turn();
  add('b', '6');
  add('b', '7');
  assert.deepEqual(ran, ['1', '2', '3', '4', '5', '6']);
  await turn();
  assert.deepEqual(ran, ['1', '2', '3', '4', '5', '6', '7']);
});

test('who comes in a lane of their own does not wait for all of a long one (P10)', async () => {
  const queue = new PacedQueue(2);
  const ran: string[] = [];
  for (let i = 1; i <= 7; i++) queue.add('hot', () => ran.push(`hot ${i}`));
  await turn();
  for (const name of ['cold 1', 'cold 2']) queue.add('cold', () => ran.push(name));
  queue.add('other', () => ran.push('other 1'));
  while (ran.length < 10) await turn();
  assert.deepEqual(ran.slice(0, 4), ['hot 1', 'hot 2', 'hot 3', 'hot 4']);
  assert.deepEqual(ran.slice(4), ['hot 5', 'cold 1', 'other 1', 'hot 6', 'cold 2', 'hot 7']);
});
