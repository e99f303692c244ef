import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInProcess } from '#test/cli/in-process.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';
import { refused, startCheckedService } from './checked-service.ts';

test('an API key ends when its command said, with a 401 that says so; one without an end goes on (P9)', async (t) => {
  const clock = new AdvancingClock();
  const service = await startCheckedService((clean) => t.after(clean), {}, clock);
  const run = async (...args: string[]) => {
    const outcome = await runInProcess(['api-key', ...args, '--data', service.dataFolder], { clock });
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome.stdout.toString().trim();
  };
  const create = (...args: string[]) => run('create', '--subject', 'ann', '--scope', 'lancegate:read', ...args);
  const [endless, brief] = [await create(), await create('--expires', '90d')];
  const ask = (key: string) => service.get('/v1/namespace/%24/list', { 'x-api-key': key });
  clock.advance(90 * 86_400_000 - 60_000);
  assert.deepEqual([(await ask(endless)).status, (await ask(brief)).status], [200, 200]);
  assert.match(await run('list'), /\tvalid\t.*\n.*\tvalid until \d{4}-/);
  clock.advance(60_000);
  refused(await ask(brief), 401, 16, /The API key has expired/);
  assert.equal((await ask(endless)).status, 200);
  assert.match(await run('list'), /\tvalid\t.*\n.*\texpired \d{4}-/);
});
