import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import type { Dataset, Engine, OpenRequest, OptimizeRequest } from '#src/engine/port/engine.ts';
import { Upkeep } from '#src/maintenance/act/upkeep.ts';
import { Maintenance } from '#src/maintenance/maintenance.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { eventually } from '#test/http/eventually.ts';
import { AdvancingClock } from './advancing-clock.ts';

const retentionMs = 60_000;
const rows = (ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });
const onId = [parseFieldPath('id')];

interface Job {
  readonly job?: string;
  readonly reason?: string;
  readonly removedVersions?: number;
  readonly removedFragments?: number;
}

/** A table that is looked after, with removals of versions that end when they are allowed to, if not when they are asked for. */
async function slowlyPruned(t: TestContext, end: () => Promise<void>) {
  const { catalog, engine, dataset, ref, tableId, location } = await publishTable(t, rows([0]));
  let prunings = 0;
  let atOnce = 0;
  let mostAtOnce = 0;
  const optimize = async (opened: Dataset, request: OptimizeRequest) => {
    if (request.pruneBeforeMs === 0) return opened.optimize(request);
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    const result = await opened.optimize(request);
    prunings += 1;
    await end();
    atOnce -= 1;
    return result;
  };
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, { optimize: (request: OptimizeRequest) => optimize(opened, request) });
  };
  const watchedEngine = replacing<Engine>(engine, { open });
  const log: string[] = [];
  const clock = new AdvancingClock();
  const recoveryMarks = new RecoveryMarks({ catalog, engine: watchedEngine });
  const maintenance = new Maintenance({
    upkeep: new Upkeep({ catalog, engine: watchedEngine, locks: new TableLocks(10), recoveryMarks }),
    clock,
    logger: createLogger({ level: 'info', format: 'json', destination: { write: (line) => log.push(line) } }),
    metrics: new Metrics(),
    limits: { isAutomatic: true, retentionMs, maxWaitMs: 60_000, indexFromRows: 1_000_000 },
  });
  let id = 0;
  /** So many, the later of which are much slower than the first. */
  const commits = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i += 1) {
      await dataset.refresh();
      await dataset.append(ipcFile(rows([++id])));
      const engineMs = i < 10 ? 1 : 1_000;
      const version = await dataset.version();
      maintenance.committed({
        table: ref,
        tableId,
        branch: undefined,
        location,
        on: onId,
        engineMs,
        gainsByIndex: true,
        isPlaced: false,
        mostFragments: Number.POSITIVE_INFINITY,
        version,
      });
    }
  };
  /** Longer than it takes to begin a job. */
  const aWhile = async (): Promise<void> => {
    for (let i = 0; i < 50; i += 1) await dataset.layout();
  };
  const jobs = (): Job[] => log.map((line) => JSON.parse(line) as Job);
  const prunedVersions = (): number => jobs().reduce((sum, { removedVersions = 0 }) => sum + removedVersions, 0);
  const target = { table: ref, tableId, branch: undefined, location };
  return {
    maintenance,
    target,
    clock,
    commits,
    aWhile,
    jobs,
    prunedVersions,
    prunings: () => prunings,
    mostAtOnce: () => mostAtOnce,
  };
}

/** Five commits grew old, and a removal of their versions is under way, which ends when `ended` is resolved. */
async function whileVersionsGo(t: TestContext) {
  const ended = Promise.withResolvers<void>();
  const watched = await slowlyPruned(t, () => ended.promise);
  t.after(() => {
    ended.resolve();
    return watched.maintenance.close();
  });
  await watched.commits(5);
  for (let i = 0; i < 2; i += 1) watched.clock.advance(retentionMs + 10_000);
  await eventually('versions are being removed', () => watched.prunings() === 1);
  return { ended, ...watched };
}

test('while versions are removed other jobs go on, but no second removal, and closing waits for it (P8)', async (t) => {
  const { ended, maintenance, clock, commits, jobs, prunedVersions, prunings } = await whileVersionsGo(t);
  assert.deepEqual(jobs(), []);

  await commits(40);
  await eventually('a tidying beside it', () => jobs().some(({ reason }) => reason === 'slower'));
  for (let i = 0; i < 2; i += 1) clock.advance(retentionMs + 10_000);
  await commits(5);
  assert.deepEqual([prunings(), prunedVersions()], [1, 0]);

  let isClosed = false;
  const closing = maintenance.close().then(() => {
    isClosed = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isClosed, false);
  ended.resolve();
  await closing;
  assert.ok(prunedVersions() > 0);
});

test('maintenance by hand waits for a removal under way (P8)', async (t) => {
  const ended = Promise.withResolvers<void>();
  const { maintenance, target, clock, commits, aWhile, prunings, mostAtOnce } = await slowlyPruned(
    t,
    () => ended.promise,
  );
  t.after(() => {
    ended.resolve();
    return maintenance.close();
  });
  await commits(5);
  for (let i = 0; i < 2; i += 1) clock.advance(retentionMs + 10_000);
  await eventually('versions are being removed', () => prunings() === 1);
  await commits(5);
  const byHand = maintenance.maintainByHand(target);
  await aWhile();
  assert.equal(mostAtOnce(), 1);
  ended.resolve();
  assert.ok((await byHand).length > 0);
  assert.equal(mostAtOnce(), 1);
});

test('when they have been removed, what grew old meanwhile is looked at (P8)', async (t) => {
  const { ended, clock, commits, aWhile, prunings, mostAtOnce } = await whileVersionsGo(t);
  await commits(5);
  for (let i = 0; i < 2; i += 1) clock.advance(retentionMs + 10_000);
  await aWhile();
  ended.resolve();
  await eventually('the next ones', () => prunings() === 2);
  assert.equal(mostAtOnce(), 1);
});

test('a removal that fails beside other jobs is told of, and tried again later (P8)', async (t) => {
  const { ended, jobs } = await whileVersionsGo(t);
  ended.promise.catch(() => undefined); // it may be asked for later than it is settled
  ended.reject(new Error('the disk is gone'));
  await eventually('the failure is told', () => JSON.stringify(jobs()).includes('looking after a table failed'));
});
