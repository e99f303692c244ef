import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#src/kernel/clock.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { CommitWaits } from '#src/table/consumers.ts';
import { Metrics } from '#src/telemetry/metrics.ts';

const never = async (): Promise<boolean> => false;
const minuteMs = 60_000;
const rules = { clock: systemClock, metrics: new Metrics(), principalShare: 0.5 };
const by = (subject: string, signal: AbortSignal = neverAborts) => ({
  signal,
  principal: { subject, issuer: 'own' } as never,
});

test('a request that waits for a commit ends with its client, and all with the service', async () => {
  const waits = new CommitWaits(rules);
  const client = new AbortController();
  const [left, stopped] = [waits.wait(minuteMs, by('a', client.signal), never), waits.wait(minuteMs, by('a'), never)];
  client.abort();
  await left;
  waits.close();
  await stopped;
  await waits.wait(minuteMs, by('a'), never);
});

test('so many requests wait at once, those of one principal in its share of them, and one more is refused (P7, P10)', async () => {
  const waits = new CommitWaits({ ...rules, metrics: new Metrics() });
  const leaving = new AbortController();
  const half = (subject: string) =>
    Array.from({ length: 128 }, () => waits.wait(minuteMs, by(subject, leaving.signal), never));
  const isRefused = (subject: string) =>
    assert.rejects(waits.wait(minuteMs, by(subject), never), { kind: 'SlowDown' }, subject);
  const ofOne = half('a');
  await isRefused('a');
  const all = [...ofOne, ...half('b')];
  await isRefused('c');
  leaving.abort();
  await Promise.all(all);
  const next = waits.wait(minuteMs, by('a'), never);
  waits.close();
  await next;
});

test('a request waits for no longer than it asked, though there is no commit', async () => {
  let nowMs = 0;
  const schedule = (ms: number, run: () => void) => {
    nowMs += ms;
    queueMicrotask(run);
    return () => undefined;
  };
  const clock = { nowMs: () => nowMs, schedule };
  const waits = new CommitWaits({ ...rules, metrics: new Metrics(), clock });
  await waits.wait(1_000, by('a'), never);
  assert.equal(nowMs, 1_000);
});
