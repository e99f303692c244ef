import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#src/kernel/clock.ts';
import type { Location, ObjectName, TableId } from '#src/kernel/ids.ts';
import type { Extent } from '#src/maintenance/decide/estimate.ts';
import type { OptimizeJob } from '#src/maintenance/job.ts';
import { Jobs, type JobsParts } from '#src/maintenance/jobs.ts';
import { BranchHistory } from '#src/maintenance/observe/branch-history.ts';
import { byEngine } from './seen-commit.ts';

const target = {
  table: { namespace: [], name: 't' as ObjectName },
  tableId: 'id' as TableId,
  branch: undefined,
  location: 't.lance' as Location,
};

/** What is left to do after 20 commits and a job that put 12 fragments together, beside so many others if it was. */
async function after(extent: Extent, meanwhile?: number) {
  const history = new BranchHistory(60_000);
  const commit = (): void => history.committed(byEngine, 0);
  for (let i = 0; i < 20; i += 1) commit();
  const optimize = async (job: OptimizeJob) => {
    for (let i = 0; i < (meanwhile ?? 0); i += 1) commit();
    job.onRewritten(meanwhile !== undefined);
    return { ...job, indexed: [] };
  };
  const parts = { upkeep: { optimize }, log: { done: () => undefined }, clock: systemClock } as unknown as JobsParts;
  const fragments = Array.from({ length: 12 }, (_, id) => id);
  await new Jobs(parts).optimize({ target, history, reason: 'slower', extent, fragments, pruneBeforeMs: 0 });
  const { commitsSinceOptimize, commitsSinceIndex } = history;
  commit();
  return { commitsSinceOptimize, commitsSinceIndex, looseLossMs: Math.round(history.looseLossMs * 1_000) / 1_000 };
}

test('small fragments that were put together are in no index, and those that were not go on costing (P8)', async () => {
  assert.deepEqual(await after('small'), { commitsSinceOptimize: 0, commitsSinceIndex: 20, looseLossMs: 1.6 });
  assert.deepEqual(await after('all'), { commitsSinceOptimize: 0, commitsSinceIndex: 0, looseLossMs: 0 });
});

test('what is committed beside a job is for the next one (P8)', async () => {
  assert.deepEqual(await after('small', 3), { commitsSinceOptimize: 3, commitsSinceIndex: 23, looseLossMs: 2.2 });
  assert.deepEqual(await after('all', 3), { commitsSinceOptimize: 3, commitsSinceIndex: 3, looseLossMs: 0.6 });
});
