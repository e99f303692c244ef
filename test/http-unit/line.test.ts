import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Line } from '#src/http/line.ts';

test('what waits in line runs in order, so many in each turn of the event loop (P7)', async () => {
  const line = new Line(3);
  const ran: number[] = [];
  for (let i = 0; i < 8; i++) line.add('a', () => ran.push(i));
  assert.equal(ran.length, 0, 'nothing runs at once');
  const seen: number[] = [];
  while (ran.length < 8) {
    await turn();
    seen.push(ran.length);
  }
  assert.deepEqual(ran, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(seen, [3, 6, 8]);
  line.add('a', () => ran.push(8));
  await turn();
  assert.equal(ran.at(-1), 8);
});

test('who comes in a lane of their own does not wait for all of a long one (P10)', async () => {
  const line = new Line(2);
  const ran: string[] = [];
  for (const name of ['hot 1', 'hot 2', 'hot 3', 'hot 4', 'hot 5']) line.add('hot', () => ran.push(name));
  await turn();
  for (const name of ['cold 1', 'cold 2']) line.add('cold', () => ran.push(name));
  line.add('other', () => ran.push('other 1'));
  while (ran.length < 8) await turn();
  assert.deepEqual(ran, ['hot 1', 'hot 2', 'hot 3', 'cold 1', 'other 1', 'hot 4', 'cold 2', 'hot 5']);
});
