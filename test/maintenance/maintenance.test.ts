import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { connect, type Table as LanceTable } from '@lancedb/lancedb';
import {
  Field,
  FixedSizeList,
  Float32,
  Float64,
  Int32,
  makeData,
  makeVector,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { runInProcess } from '#test/cli/in-process.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { eventually } from '#test/http/eventually.ts';
import { people, type Row, storedRows, stream } from '#test/http/rows.ts';
import { AdvancingClock } from './advancing-clock.ts';

const retentionMs = 60_000;
const settings = { VERSION_RETENTION: '1m' };
const byHand = { ...settings, AUTO_MAINTENANCE: 'false' };

const numbers = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i);

interface Job extends Row {
  readonly job: 'compact' | 'index' | 'prune';
}

const jobsOf = (service: TestService): Job[] =>
  service.log.map((line) => JSON.parse(line) as Row).filter((entry): entry is Job => entry.job !== undefined);

async function create(service: TestService, rows: Buffer, table = 't'): Promise<void> {
  assert.equal((await service.post(`/v1/table/${table}/create`, rows)).status, 200);
}

async function merge(service: TestService, rows: Buffer, query = 'on=id', table = 't'): Promise<void> {
  const { status, body } = await service.post(`/v1/table/${table}/merge_insert?${query}`, rows);
  assert.equal(status, 200, JSON.stringify(body));
}

/** As another program sees it. */
const outside = async (service: TestService, table = 't'): Promise<LanceTable> =>
  (await connect(service.tablesFolder)).openTable(table);

const versionsOf = async (table: LanceTable): Promise<number[]> =>
  (await table.listVersions()).map(({ version }) => version);

/** Without opening any, since they may be about to go. */
const countVersions = (service: TestService): number =>
  readdirSync(join(service.tablesFolder, 't.lance/_versions')).filter((name) => name.endsWith('.manifest')).length;

async function maintain(service: TestService, table = 't'): Promise<Row[]> {
  const { status, body } = await service.post<{ jobs: Row[] }>(`/v1/table/${table}/maintain`);
  assert.equal(status, 200, JSON.stringify(body));
  return body.jobs;
}

describe('a table stays as fast as it was (P8)', () => {
  test('200 upserts leave neither as many fragments nor, later, as many versions', { timeout: 120_000 }, async (t) => {
    const clock = new AdvancingClock();
    const service = await startTestService(t.after.bind(t), { ...settings, VERSION_RETENTION: '1h' }, clock);
    await create(service, people(numbers(100), 'first'));
    for (const i of numbers(200)) await merge(service, people([i % 2 === 0 ? i : 1_000 + i], 'later'));
    const table = await outside(service);
    await eventually('fragments are compacted meanwhile', async () => {
      await table.checkoutLatest();
      return (await table.stats()).fragmentStats.numFragments < 180;
    });
    assert.ok(countVersions(service) > 200, 'the retention has not passed');

    for (const _ of numbers(3)) clock.advance(3_600_000);
    await eventually('the old versions are gone', () => countVersions(service) < 10);
    await eventually('the last fragments are compacted', async () => {
      await table.checkoutLatest();
      return (await table.stats()).fragmentStats.numFragments < 10;
    });
    assert.equal(await table.countRows(), 100 + 50 + 100);
    for (const job of jobsOf(service)) assert.ok(Number(job.durationMs) >= Number(job.lockedMs ?? 0));
  });

  test('a table at rest is, after the retention, no more than its newest version', async (t) => {
    const clock = new AdvancingClock();
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 100 }, clock);
    await create(service, people(numbers(100), 'first'));
    for (const i of numbers(6)) await merge(service, people([i, 1_000 + i], 'later'));
    await eventually('the index is built', () => jobsOf(service).some(({ job }) => job === 'index'));
    await maintain(service);
    const folder = join(service.tablesFolder, 't.lance');
    const files = (): number[] =>
      ['data', '_deletions', '_indices'].map((name) => readdirSync(join(folder, name)).length);
    assert.ok(countVersions(service) > 6);
    for (const _ of numbers(4)) clock.advance(retentionMs);
    const left = () => ({ versions: countVersions(service), files: files() });
    const nothingElse = { versions: 1, files: [1, 0, 1] };
    await eventually(
      'nothing else is left',
      () => isDeepStrictEqual(left(), nothingElse),
      () => [left(), service.log.slice(-8)],
    );
  });

  test('no writer waits for all of a table of wide rows, only for small fragments', async (t) => {
    const service = await startTestService(t.after.bind(t), { VERSION_RETENTION: '1h' });
    const floats = 512;
    const vectors = (ids: readonly number[]): Buffer => {
      const child = vectorFromArray(new Float32Array(ids.length * floats)).data[0];
      const type = new FixedSizeList(floats, new Field('item', new Float32(), true));
      return stream({ id: ids, vector: makeVector(makeData({ type, length: ids.length, child } as never)) });
    };
    await create(service, vectors(numbers(20_000)));
    const isCompacted = (): boolean => jobsOf(service).some(({ job }) => job === 'compact');
    let merges = 0;
    for (; merges < 500 && !isCompacted(); merges++) await merge(service, vectors([merges, 20_000 + merges]));
    const job = jobsOf(service).find(({ job }) => job === 'compact');
    assert.equal(job?.reason, 'small fragments');
    assert.ok(Number(job?.removedFragments) > 10);
    assert.equal((await service.post('/v1/table/t/merge_insert?on=id', vectors([3, 20_003]))).body.num_updated_rows, 2);
    const table = await outside(service);
    assert.equal(await table.countRows(), 20_000 + merges);
    for (const id of [0, 1, 20_000, 20_001]) assert.equal(await table.countRows(`id = ${id}`), 1);
  });

  test('what ran, why and what it cost is in the metrics and the log', async (t) => {
    const service = await startTestService(t.after.bind(t), byHand);
    await create(service, people([1], 'a'));
    await merge(service, people([2], 'b'));
    await maintain(service);
    const [job] = jobsOf(service);
    assert.deepEqual(
      [job?.table, job?.branch, job?.reason, job?.message],
      ['t', 'main', 'by hand', 'compacted a table'],
    );
    const authorization = `Bearer ${await service.mint('lancegate:admin')}`;
    const metrics = await (await fetch(`${service.url}/metrics`, { headers: { authorization } })).text();
    assert.match(metrics, /lancegate_maintenance_duration_seconds_count\{job="compact",outcome="done"\} 1/);
    assert.match(metrics, /lancegate_maintenance_locked_seconds_count 1/);
  });

  test('one row per key while the table is compacted under its writers (P2)', { timeout: 60_000 }, async (t) => {
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 1_000 });
    await create(service, people(numbers(2_000), 'first'));
    let isDone = false;
    const maintaining = (async () => {
      let rounds = 0;
      for (; !isDone; rounds++) await maintain(service);
      return rounds;
    })();
    const client = async (seed: number): Promise<void> => {
      for (const round of numbers(40)) {
        const keys = numbers(20).map((i) => (i % 2 === 0 ? i * 97 + seed : 2_000 + round * 20 + i));
        await merge(service, people(keys, `client ${seed}`));
      }
    };
    await Promise.all(numbers(8).map(client));
    isDone = true;
    assert.ok((await maintaining) > 0);
    const ids = (await storedRows(service, 't')).map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids.length, 2_000 + 40 * 10);
  });
});

describe('versions that a reader may need (P8)', () => {
  test('a reader keeps reading what it opened until the retention has passed', async (t) => {
    const clock = new AdvancingClock();
    const service = await startTestService(t.after.bind(t), byHand, clock);
    await create(service, people([1, 2], 'first'));
    for (const i of numbers(5)) await merge(service, people([1, 10 + i], 'before'));
    const opened = await (await outside(service)).version();
    /** Anew each time, so that nothing comes from memory. */
    const read = async (): Promise<number> => {
      const reader = await outside(service);
      await reader.checkout(opened);
      return (await reader.query().toArray()).length;
    };
    for (const i of numbers(20)) await merge(service, people([1, 20 + i], 'after'));

    clock.advance(retentionMs - 30_000);
    const [early] = await maintain(service);
    assert.equal(early?.removed_versions, 0);
    assert.ok(Number(early?.removed_fragments) > 20);
    assert.equal(await read(), 7);

    clock.advance(30_000);
    const [late] = await maintain(service);
    assert.ok(Number(late?.removed_versions) > 20);
    await assert.rejects(read());
  });

  test('the newest version before the retention began is not old, however long ago it was made', async (t) => {
    const clock = new AdvancingClock();
    const service = await startTestService(t.after.bind(t), byHand, clock);
    await create(service, people([1, 2], 'first'));
    const reader = await outside(service);
    clock.advance(50 * retentionMs);
    await merge(service, people([1], 'after'));
    clock.advance(retentionMs - 30_000);
    await maintain(service);
    assert.equal((await reader.query().toArray()).length, 2);
  });

  test('tagged versions stay, and the table is compacted all the same', async (t) => {
    const clock = new AdvancingClock();
    const service = await startTestService(t.after.bind(t), byHand, clock);
    await create(service, people([1, 2], 'first'));
    await merge(service, people([3], 'a'));
    const table = await outside(service);
    const tagged = await table.version();
    await (await table.tags()).create('audit', tagged);
    for (const i of numbers(5)) await merge(service, people([i], 'b'));
    clock.advance(2 * retentionMs);
    const [job] = await maintain(service);
    assert.equal(job?.held_by_tag, true);
    assert.equal(job?.removed_versions, tagged + 3, 'those after the tag, too, but the newest');
    assert.ok(Number(job?.removed_fragments) > 1);
    await table.checkout('audit');
    assert.equal((await table.query().toArray()).length, 3);
    assert.ok(jobsOf(service).some(({ message }) => message === 'a tag keeps old versions of a table'));
  });

  test('what a branch starts from stays, and branches are compacted too', async (t) => {
    const clock = new AdvancingClock();
    const service = await startTestService(t.after.bind(t), byHand, clock);
    await create(service, people([1, 2], 'first'));
    await merge(service, people([3], 'a'));
    const base = await (await outside(service)).version();
    assert.equal((await service.post('/v1/table/t/branches/create', { name: 'dev' })).status, 200);
    for (const i of numbers(4)) {
      await merge(service, people([i], 'main'));
      await merge(service, people([100 + i], 'dev'), 'on=id&branch=dev');
    }
    clock.advance(2 * retentionMs);
    const jobs = await maintain(service);
    assert.deepEqual(
      jobs.map(({ branch }) => branch),
      ['main', 'dev'],
    );
    for (const job of jobs) assert.ok(Number(job.removed_versions) > 1);
    const table = await outside(service);
    assert.ok((await versionsOf(table)).includes(base));
    const dev = await (await table.branches()).checkout('dev');
    assert.deepEqual((await dev.query().toArray()).map(({ id }) => id).sort(), [1, 100, 101, 102, 103, 2, 3]);
    await table.checkout(base);
    assert.equal((await table.query().toArray()).length, 3);
  });
});

describe('an index on the key of a table that has grown (P8)', () => {
  const texts = (values: readonly number[]): Vector =>
    vectorFromArray(
      values.map((value) => `k${value}`),
      new Utf8(),
    ) as Vector;
  const rowsOf = (key: (values: readonly number[]) => Vector, values: readonly number[], n: number): Buffer =>
    stream({ id: key(values), n: vectorFromArray(values, new Int32()).length > 0 ? values.map(() => n) : [] });

  test('is built at the second merge on a column, and merges through it match as before (P2)', async (t) => {
    const service = await startTestService(t.after.bind(t), settings);
    await create(service, rowsOf(texts, numbers(20_000), 0));
    await merge(service, rowsOf(texts, numbers(10), 1));
    assert.deepEqual(await (await outside(service)).listIndices(), []);
    await merge(service, rowsOf(texts, numbers(10, 19_995), 2));
    await eventually('the index is built', () => jobsOf(service).some(({ job }) => job === 'index'));
    const { body } = await service.post('/v1/table/t/merge_insert?on=id', rowsOf(texts, numbers(10, 20_000), 3));
    assert.deepEqual([body.num_updated_rows, body.num_inserted_rows], [5, 5]);
    const table = await outside(service);
    assert.equal(await table.countRows(), 20_010);
    assert.equal(await table.countRows('n = 3'), 10);
    const [index] = await table.listIndices();
    assert.deepEqual([index?.columns, index?.indexType], [['id'], 'BTree']);
    assert.equal(jobsOf(service).filter(({ job }) => job === 'index').length, 1);
  });

  test('covers new rows after a compaction', async (t) => {
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 100 });
    await create(service, people(numbers(100), 'first'));
    for (const i of numbers(4)) await merge(service, people(numbers(10, 100 + 10 * i), 'later'));
    await eventually('the index is built', () => jobsOf(service).some(({ job }) => job === 'index'));
    await merge(service, people(numbers(10, 200), 'later'));
    await maintain(service);
    const statistics = await (await outside(service)).indexStats('id_idx');
    assert.deepEqual([statistics?.numIndexedRows, statistics?.numUnindexedRows], [150, 0]);
    assert.deepEqual([jobsOf(service).at(-1)?.job, jobsOf(service).at(-1)?.reason], ['index', 'by hand']);
  });

  test('is built anew by itself when merges have brought rows that it does not cover', async (t) => {
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 4_000 });
    await create(service, people(numbers(4_000), 'first'));
    for (const i of numbers(2)) await merge(service, people([i], 'later'));
    await eventually('the index is built', () => jobsOf(service).some(({ job }) => job === 'index'));
    await merge(service, people(numbers(1_200, 4_000), 'later'));
    const renewed = (): boolean => jobsOf(service).some(({ job, reason }) => job === 'index' && reason === 'many rows');
    for (let i = 0; i < 20; i++) await merge(service, people([10_000 + i], 'later'));
    await eventually('it is built anew', renewed);
    const indexes = async () => (await outside(service)).listIndices();
    await eventually(
      'no more rows are without it than the rule leaves, as where a compaction moved them meanwhile',
      async () => {
        const [index] = await indexes();
        return Number(index?.numUnindexedRows) <= 5_220 / 4;
      },
    );
    assert.equal((await indexes()).length, 1);
    const ids = (await storedRows(service, 't')).map(({ id }) => id);
    assert.equal(new Set(ids).size, 5_220);
  });

  test('of a branch is no reason to build it, and readers can ask by it when the branch was compacted', async (t) => {
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 100 });
    await create(service, people(numbers(100), 'first'));
    for (const i of numbers(3)) await merge(service, people([i], 'main'));
    await eventually('main has an index', () => jobsOf(service).some(({ job }) => job === 'index'));
    await service.post('/v1/table/t/branches/create', { name: 'dev' });
    for (const i of numbers(60)) await merge(service, people([1_000 + i, i], 'dev'), 'on=id&branch=dev');
    await maintain(service);
    const ofDev = jobsOf(service).filter(({ branch }) => branch === 'dev');
    assert.deepEqual(
      ofDev.filter(({ reason }) => reason === 'merges on the column'),
      [],
    );
    assert.ok(ofDev.some(({ job, reason }) => job === 'index' && reason === 'by hand'));
    const dev = await (await (await outside(service)).branches()).checkout('dev');
    for (const id of [5, 80, 1_005]) assert.equal((await dev.query().where(`id = ${id}`).toArray()).length, 1);
    assert.equal(await dev.countRows(), 160);
  });

  test('of another program is built again by hand, also on a branch that has it from its parent', async (t) => {
    const service = await startTestService(t.after.bind(t), { ...byHand, indexFromRows: 1_000_000 });
    await create(service, people(numbers(100), 'first'));
    await (await outside(service)).createIndex('id', { name: 'mine' });
    await service.post('/v1/table/t/branches/create', { name: 'dev' });
    for (const i of numbers(20)) await merge(service, people([i, 1_000 + i], 'dev'), 'on=id&branch=dev');
    await maintain(service);
    const dev = await (await (await outside(service)).branches()).checkout('dev');
    assert.deepEqual(
      (await dev.listIndices()).map(({ name, numUnindexedRows }) => [name, numUnindexedRows]),
      [['mine', 0]],
    );
    for (const id of [5, 80, 1_005]) assert.equal((await dev.query().where(`id = ${id}`).toArray()).length, 1);
  });

  test('is not written again when only old versions go', async (t) => {
    const clock = new AdvancingClock();
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 100 }, clock);
    await create(service, people(numbers(100), 'first'));
    for (const i of numbers(4)) await merge(service, people([i], 'later'));
    await eventually('the index is built', () => jobsOf(service).some(({ job }) => job === 'index'));
    await maintain(service);
    const until = jobsOf(service).length;
    for (const _ of numbers(3)) clock.advance(retentionMs);
    const pruned = () =>
      jobsOf(service)
        .slice(until)
        .find(({ reason }) => reason === 'old versions');
    await eventually('old versions go', () => pruned() !== undefined);
    assert.ok(Number(pruned()?.removedVersions) > 0);
    assert.ok(
      jobsOf(service)
        .slice(until)
        .every(({ job }) => job !== 'index'),
    );
    const statistics = await (await outside(service)).indexStats('id_idx');
    assert.equal(statistics?.numUnindexedRows, 0);
  });

  test('of another program keeps its name, and is built again when the table is maintained by hand', async (t) => {
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 1_000_000 });
    await create(service, people(numbers(100), 'first'));
    await (await outside(service)).createIndex('id', { name: 'mine' });
    for (const i of numbers(4)) await merge(service, people(numbers(10, 100 + 10 * i), 'later'));
    await maintain(service);
    const indexes = await (await outside(service)).listIndices();
    assert.deepEqual(
      indexes.map(({ name }) => name),
      ['mine'],
    );
    assert.equal(indexes[0]?.numUnindexedRows, 0);
    await merge(service, people([1, 500], 'last'));
    assert.equal((await storedRows(service, 't')).filter(({ id }) => id === 1).length, 1);
  });

  test('is not built where keys are floats, composite or nested, nor on a branch', async (t) => {
    const service = await startTestService(t.after.bind(t), { ...settings, indexFromRows: 1 });
    const floats = (values: readonly number[]): Vector => vectorFromArray(values, new Float64()) as Vector;
    await create(service, rowsOf(floats, [1, 2], 0), 'floats');
    await create(service, people([1, 2], 'a'), 'composite');
    await create(service, people([1, 2], 'a'), 'branched');
    await service.post('/v1/table/branched/branches/create', { name: 'dev' });
    for (const i of numbers(4)) {
      await merge(service, rowsOf(floats, [i], i), 'on=id', 'floats');
      await merge(service, people([i], 'b'), 'on=id&on=name', 'composite');
      await merge(service, people([i], 'b'), 'on=id&branch=dev', 'branched');
    }
    for (const table of ['floats', 'composite', 'branched']) {
      await maintain(service, table);
      assert.deepEqual(await (await outside(service, table)).listIndices(), [], table);
    }
  });
});

describe('maintenance by hand', () => {
  test('lancegate maintain asks the running service and prints what it did', async (t) => {
    const service = await startTestService(t.after.bind(t), byHand);
    await create(service, people([1], 'a'));
    for (const i of numbers(20)) await merge(service, people([i], 'b'));
    assert.deepEqual(jobsOf(service), []);
    const data = ['--data', service.dataFolder];
    const clock = new AdvancingClock();
    const { code, stdout, stderr } = await runInProcess(['maintain', 't', ...data], { clock });
    assert.equal(code, 0, stderr);
    const job = JSON.parse(stdout.toString()) as Row;
    assert.deepEqual([job.job, job.branch, job.reason], ['compact', 'main', 'by hand']);
    assert.ok(Number(job.removed_fragments) >= 19);

    const missing = await runInProcess(['maintain', 'nothing', ...data], { clock });
    assert.deepEqual([missing.code, missing.stdout.length], [1, 0]);
    assert.match(missing.stderr, /table 'nothing' does not exist/);
    await service.close();
    const stopped = await runInProcess(['maintain', 't', ...data], { clock });
    assert.match(stopped.stderr, /no service runs on the data folder/);
  });

  test('needs the scope for administration (P9)', async (t) => {
    const service = await startTestService(t.after.bind(t), settings);
    await create(service, people([1], 'a'));
    const authorization = `Bearer ${await service.mint('lancegate:write')}`;
    assert.equal((await service.post('/v1/table/t/maintain', {}, { authorization })).status, 403);
  });
});
