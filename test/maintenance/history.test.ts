/** Mistakes are taken back days later, by one request or one command. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { runInProcess } from '#test/cli/in-process.ts';
import { startTestService, type TestService, type TestSettings } from '#test/fixtures/service.ts';
import { eventually } from '#test/http/eventually.ts';
import { part, transact } from '#test/http/multipart-body.ts';
import { people, type Row, storedRows } from '#test/http/rows.ts';
import { AdvancingClock } from './advancing-clock.ts';

const dayMs = 86_400_000;
const numbers = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i);
const byHand = { AUTO_MAINTENANCE: 'false' };

async function started(t: TestContext, settings: TestSettings = {}) {
  const clock = new AdvancingClock();
  const service = await startTestService(t.after.bind(t), settings, clock);
  await request(service, 'create', people(numbers(100), 'first'));
  return { service, clock };
}

async function request(service: TestService, path: string, body?: Buffer | object): Promise<Row> {
  const answer = await service.post(`/v1/table/t/${path}`, body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}

const versionsOf = async (service: TestService): Promise<number[]> => {
  const { versions } = await request(service, 'version/list', {});
  return (versions as { readonly version: number }[]).map(({ version }) => version);
};

const newestOf = async (service: TestService): Promise<number> =>
  Number((await request(service, 'describe', {})).version);

/** Each takes something away. */
const mistakes = {
  'a delete of all rows': (service: TestService) => request(service, 'delete', { predicate: 'true' }),
  'an insert that overwrites': (service: TestService) => request(service, 'insert?mode=overwrite', people([1], 'x')),
  'a drop of a column': (service: TestService) => request(service, 'drop_columns', { columns: ['name'] }),
  'a restore': (service: TestService) => request(service, 'restore', { version: 1 }),
  'a merge that deletes by source as many rows as it inserts': (service: TestService) =>
    request(
      service,
      'merge_insert?on=id&when_matched_update_all=true&when_not_matched_insert_all=true&when_not_matched_by_source_delete=true',
      people(numbers(140, 1_000), 'x'),
    ),
  'a delete among other operations of one commit': (service: TestService) =>
    transact(service, 't', [
      part('gone', { operation: 'delete', predicate: 'id < 140' }),
      part('more', { operation: 'insert', source: 'rows' }),
      part('rows', people(numbers(200, 5_000), 'y')),
    ]).then(({ body }) => body),
} as const;

describe('what is taken away can be taken back for a week (P13)', () => {
  for (const [what, mistake] of Object.entries(mistakes)) {
    test(`${what}, six days later, after a restart and other writes`, { timeout: 120_000 }, async (t) => {
      const { service, clock } = await started(t, byHand);
      for (const i of numbers(4))
        await request(service, 'merge_insert?on=id', people(numbers(10, 100 + 10 * i), 'later'));
      const before = await newestOf(service);
      const wanted = await storedRows(service, 't');
      assert.equal(wanted.length, 140);
      await mistake(service);
      assert.equal(await newestOf(service), before + 1);
      await request(service, 'maintain');
      clock.advance(dayMs);
      await request(service, 'maintain');
      await service.restart();
      clock.advance(5 * dayMs);
      await request(service, 'maintain');
      assert.ok((await versionsOf(service)).includes(before), `${await versionsOf(service)}`);
      await request(service, 'restore', { version: before });
      assert.deepEqual(await storedRows(service, 't'), wanted);
    });
  }

  test('by one command that names the time before it', { timeout: 120_000 }, async (t) => {
    const { service, clock } = await started(t);
    for (const i of numbers(4))
      await request(service, 'merge_insert?on=id', people(numbers(10, 100 + 10 * i), 'later'));
    const wanted = await storedRows(service, 't');
    const time = new Date().toISOString();
    await eventually('the second has passed', () => Date.now() > Date.parse(time) + 5);
    await request(service, 'delete', { predicate: 'true' });
    const deleted = await newestOf(service);
    for (const _ of numbers(6)) clock.advance(dayMs);
    await eventually('old versions went', async () => !(await versionsOf(service)).includes(1));
    assert.ok((await versionsOf(service)).includes(deleted - 1));
    const outcome = await runInProcess(['restore', 't', '--to', time, '--data', service.dataFolder], { clock });
    assert.equal(outcome.code, 0, outcome.stderr);
    assert.match(outcome.stdout.toString(), new RegExp(`as version ${deleted - 1} was`));
    assert.deepEqual(await storedRows(service, 't'), wanted);
  });

  test('and no longer, also of a table that nobody writes to (P8)', { timeout: 120_000 }, async (t) => {
    const { service, clock } = await started(t);
    await request(service, 'delete', { predicate: 'true' });
    const newest = await newestOf(service);
    await service.restart();
    for (const _ of numbers(6)) clock.advance(dayMs);
    assert.ok((await versionsOf(service)).includes(newest - 1));
    await eventually('it is gone', async () => {
      clock.advance(dayMs);
      return (await versionsOf(service)).length === 1;
    });
  });

  test('but not what a request for versions does away with', async (t) => {
    const { service } = await started(t, byHand);
    await request(service, 'delete', { predicate: 'id = 1' });
    const { deleted_count } = await request(service, 'version/delete', {
      ranges: [{ start_version: 0, end_version: -1 }],
    });
    assert.deepEqual([deleted_count, (await versionsOf(service)).length], [1, 1]);
  });
});

describe('room for history', () => {
  test('is bounded: the oldest goes first, and health, a metric and the log say how far back undo reaches', async (t) => {
    const { service, clock } = await started(t, { ...byHand, HISTORY_BYTES: '40KiB' });
    assert.deepEqual((await service.get('/readyz')).body, { status: 'ready' });
    for (const i of numbers(8)) {
      await request(service, 'merge_insert?on=id', people(numbers(200, 1_000 * i), 'more'));
      await request(service, 'delete', { predicate: `id >= ${1_000 * i}` });
    }
    clock.advance(3_600_000);
    await request(service, 'maintain');
    const versions = await versionsOf(service);
    assert.ok(versions.length > 2 && versions.length < 17, `${versions}`);
    const reach = Number((await service.get('/readyz')).body.undo_reach_seconds);
    assert.ok(reach >= 3_600 && reach < 3_700, `${reach}`);
    assert.equal(Number((await service.get('/healthz')).body.undo_reach_seconds), reach);
    const response = await fetch(`${service.url}/metrics`, {
      headers: { authorization: `Bearer ${await service.mint('lancegate:admin')}`, connection: 'close' },
    });
    const text = await response.text();
    const metric = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
    assert.ok(Math.abs(metric('lancegate_undo_reach_seconds') - reach) < 10);
    assert.ok(metric('lancegate_history_bytes') > 0 && metric('lancegate_history_bytes') <= 40 * 1_024);
    assert.ok(service.log.some((line) => line.includes('cut for want of room') && line.includes('undoReachesTo')));
  });

  test('nothing of it is used by --version-retention, which keeps what it meant and is warned of', async (t) => {
    const { service, clock } = await started(t, { ...byHand, VERSION_RETENTION: '1m' });
    await request(service, 'delete', { predicate: 'true' });
    clock.advance(3_600_000);
    await request(service, 'maintain');
    assert.equal((await versionsOf(service)).length, 1);
    assert.ok(service.log.some((line) => line.includes('a former setting is given')));
  });
});
