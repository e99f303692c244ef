import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import type { FragmentFacts, Layout } from '#src/engine/port/upkeep.ts';
import type { Location, ObjectName, TableId } from '#src/kernel/ids.ts';
import { BranchWatch, VersionAges } from '#src/maintenance/branch-watch.ts';

const merge = { on: [parseFieldPath('id')] };
const retentionMs = 60_000;

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
  const fragments = (count: number): FragmentFacts[] =>
    Array.from({ length: count }, (_, id) => ({ id, rows: 1, deletedRows: 0 }));
  const found = (small: number, indexes: Layout['indexes'] = []) => ({
    layout: { committedAtMs: undefined, rows: small, fragments: fragments(small), bytes: small, indexes },
    schema: { fields: [{ name: 'id', type: { kind: 'utf8' } }], metadata: new Map() } as never,
    lastPinned: -1,
  });
  const lacking = (unindexedRows: number) =>
    found(0, [
      {
        name: 'own',
        columns: ['id'],
        rows: 1_000,
        unindexedRows,
        spec: { ...btreeOn('id'), name: 'own' },
        isPlain: false,
      },
    ]);
  function watchAfter(count: number, indexFromRows = 20_000): BranchWatch {
    const watch = new BranchWatch(target, { indexFromRows, retentionMs });
    for (let i = 0; i < count; i += 1) watch.committed(merge, 0);
    return watch;
  }
  const seen = (watch: BranchWatch, small: number, nowMs = 0) => watch.plan(found(small), watch.commits, nowMs, true);

  test('is looked at after its first commit, after sixteen more, and once it is quiet', () => {
    const watch = watchAfter(1);
    assert.equal(watch.isDue(0, true), true);
    assert.equal(seen(watch, 2), undefined);
    for (let i = 0; i < 15; i += 1) watch.committed(merge, 0);
    assert.deepEqual([watch.isDue(0, true), watch.isDue(4_999, true), watch.isDue(5_000, true)], [false, false, true]);
    watch.committed(merge, 0);
    assert.equal(watch.isDue(0, true), true);
  });

  test('is looked at again for a commit that came during a look', () => {
    const watch = watchAfter(1);
    const { commits } = watch;
    watch.committed(merge, 0);
    assert.equal(watch.plan(found(2), commits, 0, true), undefined);
    assert.equal(watch.isDue(5_000, true), true);
    seen(watch, 3, 5_000);
    assert.equal(watch.isDue(5_000, true), false);
  });

  test('is due for what a look has found as soon as it is quiet', () => {
    const watch = watchAfter(1);
    assert.equal(seen(watch, 4), undefined);
    assert.deepEqual([watch.isDue(4_999, true), watch.isDue(5_000, true)], [false, true]);
    assert.equal(seen(watch, 4, 5_000)?.reason, 'quiet');
  });

  test('is quiet only after twice the time that the last index build or compaction took (P8)', () => {
    const watch = watchAfter(1);
    watch.succeeded('index', 20_000, 0);
    watch.succeeded('compact', 10, 0);
    assert.deepEqual([seen(watch, 4, 39_999)?.job, seen(watch, 4, 40_000)?.job], [undefined, 'compact']);
  });

  test('cools down after a job for as long as that took, but is indexed meanwhile (P8)', () => {
    const watch = watchAfter(60);
    assert.equal(seen(watch, 60)?.job, 'compact');
    watch.succeeded('compact', 100, 0);
    assert.equal(seen(watch, 60, 99), undefined);
    assert.equal(watch.plan(lacking(1_000), 60, 99, true)?.job, 'index');
    assert.equal(seen(watch, 60, 100)?.job, 'compact');
  });

  test('has no second index build within the time after which a table is quiet, beside its writers (P8)', () => {
    const watch = watchAfter(1);
    const planned = (nowMs: number) => watch.plan(lacking(2_000), 1, nowMs, false)?.job;
    assert.equal(planned(0), 'index');
    watch.succeeded('index', 100, 0);
    watch.committed({ on: [] }, 4_000);
    assert.deepEqual([planned(4_999), planned(5_000)], [undefined, 'index']);
  });

  test('has no second attempt of what failed for a while, each time for twice as long (P8)', () => {
    const watch = watchAfter(60);
    assert.deepEqual(
      [1, 2, 3].map(() => watch.failed('compact', 0)),
      [1_000, 2_000, 4_000],
    );
    assert.deepEqual([seen(watch, 60, 3_999)?.job, seen(watch, 60, 4_000)?.job], [undefined, 'compact']);
    assert.equal(watch.plan(lacking(1_000), 60, 0, true)?.job, 'index', 'other jobs go on');
    watch.succeeded('compact', 1, 4_000);
    assert.equal(watch.failed('look', 5_000), 1_000);
    assert.deepEqual([watch.isDue(5_999, true), watch.isDue(6_000, true)], [false, true]);
  });

  test('has one index build at a time, also where another job fails meanwhile (P8)', () => {
    const watch = watchAfter(1);
    const planned = (nowMs: number) => watch.plan(lacking(2_000), 1, nowMs, false)?.job;
    assert.equal(planned(0), 'index');
    watch.begins('index');
    watch.failed('compact', 0);
    assert.equal(planned(1_000), undefined);
    watch.failed('index', 1_000);
    assert.equal(planned(3_000), 'index');
  });

  test('has no old versions to remove while those of another branch are removed (P8)', () => {
    const watch = watchAfter(20);
    assert.equal(watch.plan(found(0), 20, 130_000, false), undefined);
    assert.equal(watch.plan(found(0), 20, 130_000, true)?.job, 'prune');
  });

  test('gets an index on the one top-level column of two merges', () => {
    const columns = (watch: BranchWatch) => watch.toIndex(found(100)).map(({ column }) => column);
    const watch = watchAfter(1, 100);
    watch.committed({ on: [parseFieldPath('id.k')] }, 0);
    watch.committed({ on: [parseFieldPath('id'), parseFieldPath('b')] }, 0);
    assert.deepEqual(columns(watch), [], 'the first merge may be the only one');
    watch.committed(merge, 0);
    assert.deepEqual(columns(watch), ['id']);
    assert.deepEqual(columns(watchAfter(2, 101)), [], 'a small table');
    const branch = new BranchWatch({ ...target, branch: 'dev' as never }, { indexFromRows: 1, retentionMs });
    for (let i = 0; i < 2; i += 1) branch.committed(merge, 0);
    assert.deepEqual(columns(branch), [], 'merges into other branches use none');
  });
});
