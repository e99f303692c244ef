import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import { btreeOn, type IndexSpec } from '#src/engine/port/index-spec.ts';
import type { FragmentFacts } from '#src/engine/port/upkeep.ts';
import type { Location, ObjectName, TableId } from '#src/kernel/ids.ts';
import { BranchWatch } from '#src/maintenance/branch-watch.ts';
import {
  afterCommit,
  afterFull,
  afterIndexing,
  afterTiered,
  type Debt,
  noDebt,
  VersionAges,
} from '#src/maintenance/observe/debt.ts';

/** A commit for which the engine found the rows. */
const byEngine = { on: [parseFieldPath('id')], gainsByIndex: true, mostFragments: Number.POSITIVE_INFINITY };
const retentionMs = 60_000;

function commits(debt: Debt, count: number, commit: Parameters<typeof afterCommit>[1] = byEngine): Debt {
  let now = debt;
  for (let i = 0; i < count; i += 1) now = afterCommit(now, commit);
  return now;
}
const rounded = (ms: number): number => Math.round(ms * 1_000) / 1_000;

describe('the debt of a branch (P8)', () => {
  test('grows with each fragment that a commit reads', () => {
    const { commits: count, fragmentMs, scanMs } = commits(noDebt, 20);
    assert.deepEqual([count, rounded(fragmentMs), rounded(scanMs)], [20, 0.4 * 190, 0.15 * 190]);
  });

  test('is that of the fragments that lost a row, where rows are replaced by their addresses', () => {
    assert.equal(
      rounded(commits(noDebt, 20, { gainsByIndex: false, mostFragments: 2 }).fragmentMs),
      rounded(0.4 * (1 + 18 * 2)),
    );
  });

  test('is none of an index for merges that would do without one', () => {
    assert.equal(commits(noDebt, 20, { ...byEngine, gainsByIndex: false }).scanMs, 0);
  });

  test('goes on for the fragments that a tier left, and for those that came during the job', () => {
    const before = commits(noDebt, 20);
    const after = afterTiered(commits(before, 3), before, 12);
    assert.deepEqual([after.commits, after.commitsSinceFull, after.fragments, after.fragmentMs], [3, 23, 11, 0]);
    assert.equal(after.unindexed, 23, 'no index covers what came of it');
    assert.equal(rounded(commits(after, 1).fragmentMs), 4.4);
  });

  test('is that of the commits during the job alone after a full compaction and after an index', () => {
    const before = commits(noDebt, 20);
    const after = afterIndexing(afterFull(commits(before, 3), before), before);
    assert.deepEqual(after, { ...noDebt, commits: 3, commitsSinceFull: 3, fragments: 3, unindexed: 3 });
  });
});

describe('versions that can be removed (P8)', () => {
  test('are those that were superseded when the retention began, not the one that was the newest then', () => {
    const ages = new VersionAges(retentionMs);
    for (const atMs of [0, 10_000, 20_000]) ages.committed(atMs);
    assert.equal(ages.removable(59_999), 0);
    assert.equal(ages.removable(60_000), 1, 'the one before the first commit');
    assert.equal(ages.removable(80_000), 3);
    assert.equal(ages.kept(70_000), 1);
  });

  test('are found an eighth of the retention late at most under a stream of commits, in bounded memory', () => {
    const ages = new VersionAges(retentionMs);
    for (let atMs = 0; atMs <= 600_000; atMs += 100) ages.committed(atMs);
    const exact = 5_401;
    assert.ok(ages.removable(600_000) <= exact && ages.removable(600_000) > exact - 80, `${ages.removable(600_000)}`);
  });

  test('are not asked for again', () => {
    const ages = new VersionAges(retentionMs);
    for (const atMs of [0, 1_000]) ages.committed(atMs);
    ages.removed(100_000);
    assert.deepEqual([ages.removable(100_000), ages.kept(100_000)], [0, 0]);
    ages.committed(110_000);
    assert.equal(ages.removable(170_000), 1);
  });
});

describe('a watched branch', () => {
  const target = {
    table: { namespace: [], name: 't' as ObjectName },
    tableId: 'id' as TableId,
    branch: undefined,
    location: 't.lance' as Location,
  };
  const fragments = (count: number, rows: number): FragmentFacts[] =>
    Array.from({ length: count }, (_, id) => ({ id, rows, deletedRows: 0 }));
  const found = (small: number) => ({
    layout: {
      committedAtMs: undefined,
      rows: 100_000 + small,
      fragments: [...fragments(1, 100_000), ...fragments(small, 1)],
      bytes: 2_000_000,
      indexes: [
        { name: 'id_idx', columns: ['id'], rows: 100_000, unindexedRows: small, spec: btreeOn('id'), isPlain: true },
      ],
    },
    schema: { fields: [], metadata: new Map() } as never,
  });
  function watchAfter(count: number, atMs = 0): BranchWatch {
    const watch = new BranchWatch(target, { maxWaitMs: 200, indexFromRows: 20_000, retentionMs });
    for (let i = 0; i < count; i += 1) watch.committed(byEngine, atMs);
    return watch;
  }

  test('is looked at from the second commit on, and then when what was seen says so or much has come since', () => {
    const watch = watchAfter(1);
    assert.equal(watch.isDue(0, true), false);
    watch.committed(byEngine, 0);
    assert.equal(watch.isDue(0, true), true);
    assert.equal(watch.plan(found(2), 0, true), undefined);
    watch.committed({ ...byEngine, mostFragments: 0, gainsByIndex: false }, 0);
    assert.equal(watch.isDue(0, true), false);
    for (let i = 0; i < 16; i += 1) watch.committed({ ...byEngine, mostFragments: 0, gainsByIndex: false }, 0);
    assert.equal(watch.isDue(0, true), true);
  });

  test('cools down after a job for as long as that took, but its index is rebuilt meanwhile (P8)', () => {
    const watch = watchAfter(60);
    const plan = watch.plan(found(60), 0, true);
    assert.equal(plan?.job, 'compact');
    watch.succeeded(plan!, 100, 0);
    assert.equal(watch.plan(found(60), 99, true)?.job, 'index');
    assert.equal(watch.plan(found(60), 100, true)?.job, 'compact');
  });

  test('is left alone after a failure, each time for twice as long (P8)', () => {
    const watch = watchAfter(60);
    assert.deepEqual([watch.failed(0), watch.failed(0), watch.failed(0)], [1_000, 2_000, 4_000]);
    assert.deepEqual([watch.isDue(3_999, true), watch.isDue(4_000, true)], [false, true]);
    watch.succeeded(watch.plan(found(60), 4_000, true)!, 1, 4_000);
    assert.equal(watch.failed(5_000), 1_000);
  });

  test('has one refresh at a time, also where another job fails meanwhile (P8)', () => {
    const vector = { distance: 'l2' } as const;
    const spec: IndexSpec = { name: 'v', column: 'v', options: { type: 'IVF_FLAT', vector } };
    const stale = { name: 'v', columns: ['v'], rows: 1_000, unindexedRows: 2_000, spec, isPlain: false };
    const { layout, schema } = found(0);
    const seen = { layout: { ...layout, indexes: [stale] }, schema };
    const watch = watchAfter(1);
    const planned = (nowMs: number) => watch.plan(seen, nowMs, false)?.job;
    assert.equal(planned(0), 'refresh');
    watch.beginsRefresh();
    watch.failed(0, 'compact');
    assert.equal(planned(1_000), undefined);
    watch.failed(1_000, 'refresh');
    assert.equal(planned(3_000), 'refresh');
  });

  test('has no old versions to remove while those of another branch are removed (P8)', () => {
    const watch = watchAfter(20);
    watch.maintained(noDebt, 0, 0);
    assert.equal(watch.plan(found(0), 130_000, false), undefined);
    assert.equal(watch.plan(found(0), 130_000, true)?.job, 'prune');
  });

  test('takes one top-level column of a merge as a reason for an index', () => {
    const watch = watchAfter(2);
    watch.committed({ ...byEngine, on: [parseFieldPath('meta.k')] }, 0);
    watch.committed({ ...byEngine, on: [parseFieldPath('a'), parseFieldPath('b')] }, 0);
    assert.deepEqual([...watch.mergesOn], [['id', 2]]);
  });
});
