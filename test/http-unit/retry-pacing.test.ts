import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RetryPacing } from '#src/http/admission/admission.ts';
import type { Principal } from '#src/kernel/request-scope.ts';
import { StoppedClock } from '#test/auth/stopped-clock.ts';

const ann: Principal = { issuer: 'https://issuer', subject: 'ann', scopes: [], groups: [] };
const ben: Principal = { ...ann, subject: 'ben' };

const counted = (seconds: readonly number[]): Readonly<Record<number, number>> =>
  Object.fromEntries([...new Set(seconds)].map((each) => [each, seconds.filter((other) => other === each).length]));

test('a few refused clients get a second, each time', () => {
  const clock = new StoppedClock();
  const returns = new RetryPacing(clock);
  for (let second = 0; second < 20; second++) {
    const seconds = Array.from({ length: 10 }, () => returns.secondsFor(ann));
    assert.deepEqual(counted(seconds), { 1: 10 });
    clock.advance(1000);
  }
});

test('many are asked to return in line, and the few of another principal, or of another issuer, do not wait for them (P10)', () => {
  const returns = new RetryPacing(new StoppedClock());
  const seconds = Array.from({ length: 2000 }, () => returns.secondsFor(ann));
  assert.deepEqual(counted(seconds), { 1: 500, 2: 500, 3: 500, 4: 500 });
  assert.deepEqual([returns.secondsFor(ben), returns.secondsFor({ ...ann, issuer: 'api-key' })], [1, 1]);
});

test('who is refused again and again comes five hundred times a second, all together, and not in waves (P7)', () => {
  const clock = new StoppedClock();
  const returns = new RetryPacing(clock);
  const stepMs = 10;
  const due = new Map<number, number>();
  const comeLater = (step: number): void => {
    const at = step + (returns.secondsFor(ann) * 1000) / stepMs;
    due.set(at, (due.get(at) ?? 0) + 1);
  };
  const cameInSecond: number[] = [];
  for (let step = 0; step < 6000; step++) {
    const coming = step < 100 ? 20 : (due.get(step) ?? 0); // two thousand in the first second
    for (let i = 0; i < coming; i++) comeLater(step);
    const second = Math.floor((step * stepMs) / 1000);
    cameInSecond[second] = (cameInSecond[second] ?? 0) + coming;
    clock.advance(stepMs);
  }
  const settled = cameInSecond.slice(10);
  const perSecond = settled.reduce((sum, came) => sum + came) / settled.length;
  assert.ok(perSecond > 400 && perSecond < 700, `${perSecond} a second`);
  assert.ok(Math.max(...settled) <= 1000, `${settled}`);
});

test('no client gets more than five seconds, and when the crowd is gone it is one again', () => {
  const clock = new StoppedClock();
  const returns = new RetryPacing(clock);
  const seconds = Array.from({ length: 100_000 }, () => returns.secondsFor(ann));
  assert.equal(Math.max(...seconds), 5);
  clock.advance(5000);
  assert.equal(returns.secondsFor(ann), 1);
});

test('a clock that is set back keeps no client away for longer', () => {
  const clock = new StoppedClock();
  const returns = new RetryPacing(clock);
  returns.secondsFor(ann);
  clock.advance(-3_600_000);
  assert.ok(returns.secondsFor(ann) <= 5);
});
