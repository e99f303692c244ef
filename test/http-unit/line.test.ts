import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Line } from '#src/http/line.ts';

test('what waits in line runs in order, so many in each turn of the event loop (P7)', async () => {
  const line = new Line(3);
  const ran: number[] = [];
  for (let i = 0; i < 8; i++) line.add(() => ran.push(i));
  assert.equal(ran.length, 0, 'nothing runs at once');
  const seen: number[] = [];
  while (ran.length < 8) {
    await turn();
    seen.push(ran.length);
  }
  assert.deepEqual(ran, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(seen, [3, 6, 8]);
  line.add(() => ran.push(8));
  await turn();
  assert.equal(ran.at(-1), 8);
});
