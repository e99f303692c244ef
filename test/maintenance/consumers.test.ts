/** What a consumer of changes has not acknowledged stays, for a time. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { startTestService } from '#test/fixtures/service.ts';
import { people } from '#test/http/rows.ts';
import { AdvancingClock } from './advancing-clock.ts';

const minuteMs = 60_000;

async function openTable(t: TestContext) {
  const clock = new AdvancingClock();
  const settings = { AUTO_MAINTENANCE: 'false', CONSUMER_RETENTION: '20m' };
  const service = await startTestService((clean) => t.after(clean), settings, clock);
  const post = async (path: string, body: object | Uint8Array = {}) => {
    const answer = await service.post(`/v1/table/t/${path}`, body);
    return { status: answer.status, ...answer.body } as Record<string, unknown>;
  };
  await post('create', people([1], 'x'));
  return {
    clock,
    post,
    merge: async (id: number) => post('merge_insert?on=id', people([id], 'y')),
    acknowledge: (version: number) => post('changes/acknowledge', { consumer: 'copy', version }),
    versions: async () => {
      const { versions } = (await post('version/list')) as { versions: readonly { version: number }[] };
      return versions.map(({ version }) => version);
    },
    held: async () => {
      const authorization = `Bearer ${await service.mint('lancegate:admin')}`;
      const text = await (await fetch(`${service.url}/metrics`, { headers: { authorization } })).text();
      return /^lancegate_consumer_versions (\d+)$/m.exec(text)?.[1];
    },
  };
}

describe('a consumer of changes', () => {
  test('keeps all versions from the one that it acknowledged, and a metric says how many', async (t) => {
    const { clock, post, merge, acknowledge, versions, held } = await openTable(t);
    for (const id of [2, 3, 4, 5]) await merge(id);
    await acknowledge(2);
    clock.advance(5 * minuteMs);
    await post('maintain');
    assert.deepEqual((await versions()).slice(-4), [5, 4, 3, 2]);
    assert.ok(Number(await held()) >= 3);
    await acknowledge(5);
    await post('maintain');
    assert.equal((await versions()).at(-1), 5);
  });

  test('that has acknowledged nothing new for its time keeps nothing, and has to begin anew (P7)', async (t) => {
    const { clock, post, merge, acknowledge, versions, held } = await openTable(t);
    await acknowledge(1);
    await merge(2);
    clock.advance(19 * minuteMs);
    await acknowledge(1); // no more time for the same version
    await post('maintain');
    assert.equal((await versions()).at(-1), 1);
    clock.advance(2 * minuteMs);
    await merge(3);
    await post('maintain');
    assert.notEqual((await versions()).at(-1), 1);
    assert.equal(await held(), '0');
    assert.deepEqual((await post('tags/list')).tags, {});
    assert.equal((await post('changes', { consumer: 'copy', on: ['id'] })).status, 410);
  });

  test('has its time again with each newer version', async (t) => {
    const { clock, post, merge, acknowledge, versions } = await openTable(t);
    await acknowledge(1);
    clock.advance(15 * minuteMs);
    await merge(2);
    await merge(3);
    await acknowledge(2);
    clock.advance(15 * minuteMs);
    await post('maintain');
    assert.equal((await versions()).at(-1), 2);
  });

  test('is one of a branch: it keeps nothing of another one, and acknowledges nothing there', async (t) => {
    const { clock, post, merge, versions } = await openTable(t);
    await post('branches/create', { name: 'dev' });
    await post('merge_insert?on=id&branch=dev', people([9], 'dev'));
    const onBranch = { consumer: 'copy', version: 2, branch: 'dev' };
    assert.equal((await post('changes/acknowledge', onBranch)).status, 200);
    for (const id of [2, 3, 4]) await merge(id);
    clock.advance(5 * minuteMs);
    await post('maintain');
    const kept = await versions();
    assert.ok(!kept.includes(2) && !kept.includes(3), `versions ${kept.join(', ')} of main`);
    const refusal = await post('changes/acknowledge', { consumer: 'copy', version: 4 });
    assert.equal(refusal.status, 400);
    assert.match(String(refusal.error), /^branch: the consumer/);
    assert.equal((await post('changes', { consumer: 'copy', on: ['id'] })).status, 410);
    assert.equal((await post('changes', { consumer: 'copy', on: ['id'], branch: 'dev' })).status, 200);
  });

  test('is a tag by its name: other tags stay for good', async (t) => {
    const { clock, post, merge, versions } = await openTable(t);
    await post('tags/create', { tag: 'release', version: 1 });
    await merge(2);
    await merge(3);
    clock.advance(25 * minuteMs);
    await post('maintain');
    assert.equal((await versions()).at(-1), 1);
    assert.ok('release' in ((await post('tags/list')).tags as object));
  });

  test('of a table that is dropped is counted no more', async (t) => {
    const { post, merge, acknowledge, held } = await openTable(t);
    await acknowledge(1);
    for (const id of [2, 3]) await merge(id);
    await post('maintain');
    assert.ok(Number(await held()) >= 2);
    await post('drop');
    assert.equal(await held(), '0');
  });
});
