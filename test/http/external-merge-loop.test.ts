/** Another program merges into a table without end, past the gate, while 32 clients upsert rows of it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDirectly, rowsInOrder } from '#test/clients/connections.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const clients = 32;
const phaseMs = 2_000;
/**
 * Of the undisturbed rate. Half of it and more is left (docs/measurements/shadows.md), a fortieth was before; a busy machine
 * must not decide which of the two this test sees.
 */
const leastShare = 0.2;

test('clients keep most of their rate, each key has one row, and the key index is kept (P2, P8)', async (t) => {
  const service = await startCheckedService(afterSuite());
  const table = 'merge_loop';
  succeeded(
    await service.post(
      `/v1/table/${table}/create`,
      people(
        Array.from({ length: 2_000 }, (_, id) => id),
        'old',
      ),
    ),
  );
  const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  };
  const directCommits = () => metric(String.raw`lancegate_shared_commits_total\{counted_by="key_index"\}`);

  /** Requests a second. */
  async function upsertsPerSecond(): Promise<number> {
    const endMs = performance.now() + phaseMs;
    let sent = 0;
    const client = async (_: unknown, index: number): Promise<void> => {
      for (let round = 0; performance.now() < endMs; round++) {
        const ids = Array.from({ length: 5 }, (_, i) => (index * 5 + i + round * 160) % 3_000);
        succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, people(ids, `us ${round}`)));
        sent += 1;
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
    return (sent * 1_000) / phaseMs;
  }

  await upsertsPerSecond();
  const alone = await upsertsPerSecond();
  const loop = spawn(process.execPath, [
    join(import.meta.dirname, '../fixtures/merge-loop-process.ts'),
    service.tablesFolder,
    table,
  ]);
  t.after(() => loop.kill('SIGKILL'));
  let theirs = 0;
  loop.stdout.on('data', (dots: Buffer) => {
    theirs += dots.length;
  });
  await new Promise((resolve) => loop.stdout.once('data', resolve));
  const [directBefore, theirsBefore] = [await directCommits(), theirs];
  const during = await upsertsPerSecond();
  const byAddress = (await directCommits()) - directBefore;
  t.diagnostic(
    `${alone} req/s alone, ${during} during ${theirs - theirsBefore} merges of theirs; ${byAddress} commits by address, ${await metric('lancegate_overtaken_commits_total')} overtaken`,
  );
  loop.kill('SIGKILL');
  assert.ok(theirs > theirsBefore);
  assert.ok(byAddress > 0, 'the key index is kept');
  assert.ok(during >= alone * leastShare, `${during} of ${alone} req/s`);
  const ids = (await rowsInOrder(await openDirectly(service, table), 'id')).map(({ id }) => Number(id));
  assert.equal(new Set(ids).size, ids.length);
});
