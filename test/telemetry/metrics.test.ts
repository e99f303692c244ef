import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '#src/telemetry/metrics.ts';

async function samples(metrics: Metrics): Promise<ReadonlyMap<string, number>> {
  const { body } = await metrics.render();
  const lines = body.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

test('every event shows in its instrument', async () => {
  const metrics = new Metrics();
  metrics.nameBuild('1.2.3');
  metrics.requestFinished({ method: 'POST', route: '/v1/table/:id/create', status: 200 }, 40);
  metrics.bytesReceived(1_000);
  metrics.requestRejected('SlowDown');
  metrics.watchBodyMemory(() => 4_096);
  metrics.watchWaitingForTables(() => 3);
  metrics.mergeFinished({ inserted: 3, updated: 2, deleted: 1 });
  assert.equal(await metrics.writeStage('engine', async () => 'done'), 'done');
  await assert.rejects(
    metrics.writeStage('engine', () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  metrics.commitFinished(7);
  metrics.countsTaken('search');
  metrics.createFinished();
  metrics.chunkWritten();
  const seen = await samples(metrics);
  const expected: readonly (readonly [string, number])[] = [
    [`build_info{version="1.2.3",node="${process.versions.node}"}`, 1],
    ['http_request_duration_seconds_sum{method="POST",route="/v1/table/:id/create",status="200"}', 0.04],
    ['received_bytes_total', 1_000],
    ['rejected_requests_total{reason="SlowDown"}', 1],
    ['body_memory_bytes', 4_096],
    ['waiting_for_tables', 3],
    ['merges_total', 1],
    ['merged_rows_total{change="inserted"}', 3],
    ['merged_rows_total{change="updated"}', 2],
    ['merged_rows_total{change="deleted"}', 1],
    ['write_stage_duration_seconds_count{stage="engine"}', 2],
    ['writes_per_commit_sum', 7],
    ['shared_commits_total{counted_by="search"}', 1],
    ['creates_total', 1],
    ['written_chunks_total', 1],
  ];
  for (const [name, value] of expected) assert.equal(seen.get(`lancegate_${name}`), value, name);
});

test('what is under way is counted once, however often its end is reported', async () => {
  const metrics = new Metrics();
  const ends = [metrics.uploadStarted(), metrics.uploadStarted(), metrics.writeQueued()];
  assert.equal((await samples(metrics)).get('lancegate_uploads_in_flight'), 2);
  assert.equal((await samples(metrics)).get('lancegate_queued_writes'), 1);
  for (const end of [...ends, ...ends]) end();
  assert.equal((await samples(metrics)).get('lancegate_uploads_in_flight'), 0);
  assert.equal((await samples(metrics)).get('lancegate_queued_writes'), 0);
});

test('two instances do not see each other, and both know the process', async () => {
  const [one, other] = [new Metrics(), new Metrics()];
  one.createFinished();
  assert.equal((await samples(other)).get('lancegate_creates_total'), 0);
  const { contentType } = await other.render();
  assert.match(contentType, /^text\/plain; version=0\.0\.4/);
  assert.ok((await samples(other)).has('nodejs_eventloop_lag_seconds'));
});
