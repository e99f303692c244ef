import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { LargeTexts } from '#src/http/admission/admission.ts';
import { ManualClock } from './manual-clock.ts';

const never = new AbortController().signal;
const principal = (subject: string) => ({ subject, scopes: [], groups: [], issuer: 'test' });
const long = 'x'.repeat(40_000);

/** Keeps the event loop busy. */
function read(forMs: number): void {
  for (const untilMs = performance.now() + forMs; performance.now() < untilMs; );
}

test('long texts are read one after the other, in rotation, and in between the loop is free of them as long (P10)', async () => {
  const clock = new ManualClock();
  const texts = new LargeTexts(clock);
  const order: string[] = [];
  const add = (subject: string, text = long) =>
    texts.turnOf(text, principal(subject), never).then(() => {
      order.push(subject);
      read(20);
    });
  const all = [add('a'), add('a'), add('a'), add('b')];
  await turn();
  await turn();
  assert.deepEqual(order, ['a']);
  await add('c', 'short');
  assert.deepEqual(order, ['a', 'c'], 'a short one does not wait');
  clock.advance(19);
  await turn();
  assert.deepEqual(order, ['a', 'c']);
  for (; order.length < 5; await turn()) clock.advance(10);
  await Promise.all(all);
  assert.deepEqual(order, ['a', 'c', 'a', 'b', 'a']);
});
