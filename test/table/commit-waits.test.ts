import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#src/kernel/clock.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { CommitWaits } from '#src/table/consumers.ts';
import { Metrics } from '#src/telemetry/metrics.ts';

const never = async (): Promise<boolean> => false;
const minuteMs = 60_000;

test('a request that waits for a commit ends with its client, and all with the service', async () => {
  const metrics = new Metrics();
  const waits = new CommitWaits({ clock: systemClock, metrics });
  const client = new AbortController();
  const [left, stopped] = [waits.wait(minuteMs, client.signal, never), waits.wait(minuteMs, neverAborts, never)];
  client.abort();
  await left;
  waits.close();
  await stopped;
  await waits.wait(minuteMs, neverAborts, never);
});

test('so many wait for commits at once, and one more is told to come later (P7)', async () => {
  const waits = new CommitWaits({ clock: systemClock, metrics: new Metrics() });
  const all = Array.from({ length: 256 }, () => waits.wait(minuteMs, neverAborts, never));
  await Promise.resolve();
  await assert.rejects(waits.wait(minuteMs, neverAborts, never), { kind: 'SlowDown' });
  waits.close();
  await Promise.all(all);
});
