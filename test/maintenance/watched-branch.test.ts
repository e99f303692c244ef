import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FragmentFacts, Layout } from '#src/engine/port/engine.ts';
import type { Location, ObjectName, TableId } from '#src/kernel/ids.ts';
import type { Way } from '#src/maintenance/decide/estimate.ts';
import { WatchedBranch } from '#src/maintenance/observe/watched-branch.ts';
import { byEngine } from './seen-commit.ts';

const target = {
  table: { namespace: [], name: 't' as ObjectName },
  tableId: 'id' as TableId,
  branch: undefined,
  location: 't.lance' as Location,
};
const fragments = (count: number, rows: number): FragmentFacts[] =>
  Array.from({ length: count }, () => ({ rows, deletedRows: 0 }));

/** As it is after so many upserts of one row into 100,000, none of which the index covers. */
const layoutAfter = (commits: number): Layout => ({
  committedAtMs: undefined,
  rows: 100_000 + commits,
  fragments: [...fragments(1, 100_000), ...fragments(commits, 1)],
  bytes: 2_000_000,
  indexes: [{ columns: ['id'], unindexedRows: commits, isPlain: true }],
});

/** A branch to which so many upserts came at once, at 0. */
function branchAfter(commits: number) {
  const branch = new WatchedBranch(target, { maxWaitMs: 200, indexFromRows: 20_000, retentionMs: 60_000 });
  for (let i = 0; i < commits; i += 1) branch.history.committed({ ...byEngine, engineMs: 5 }, 0);
  // Renewing the index takes less.
  branch.learn(layoutAfter(commits), 'new', { heldMs: 10, durationMs: 2_000, isPruned: false });
  const wayAt = (atMs: number): Way | undefined =>
    branch.isDue(atMs) ? branch.chooseFor(layoutAfter(commits), atMs)?.way : undefined;
  return { branch, wayAt };
}

test('what removing versions took is not held against the way that was taken (P8)', () => {
  const costs = (isPruned: boolean) => {
    const { branch } = branchAfter(40);
    branch.learn(layoutAfter(40), 'all', { heldMs: 20, durationMs: 200, isPruned: false });
    branch.learn(layoutAfter(40), 'all', { heldMs: 20, durationMs: 2_000, isPruned });
    return branch.estimateOf(layoutAfter(40)).all.tailMs;
  };
  assert.equal(costs(true), 180);
  assert.equal(costs(false), 1_980);
});

test('versions go beside writers once half as many are to go as to stay (P8)', () => {
  const reasonAfter = (old: number, young: number) => {
    const { branch } = branchAfter(old);
    for (let i = 0; i < young; i += 1) branch.history.committed({ ...byEngine, engineMs: 5 }, 60_000);
    return branch.chooseFor({ ...layoutAfter(old + young), indexes: [] }, 60_001)?.reason;
  };
  assert.equal(reasonAfter(600, 1_300), 'many commits');
  assert.equal(reasonAfter(600, 1_100), 'old versions');
});

test('while versions of another are removed, its own are no reason to do anything (P8)', () => {
  const { branch } = branchAfter(20);
  const layout = { ...layoutAfter(20), indexes: [] };
  const longLater = 100_000;
  assert.equal(branch.chooseFor(layout, longLater)?.reason, 'quiet');
  assert.equal(branch.isDue(longLater), true);
  assert.equal(branch.isDue(longLater, false), false);
  assert.equal(branch.chooseFor(layout, longLater, false), undefined);
});

describe('a branch is looked after for a part of the time only (P8)', () => {
  test('its fragments are put together again after as long a rest as that took', () => {
    const { branch, wayAt } = branchAfter(192);
    assert.equal(wayAt(0), 'all');
    branch.succeeded('all', 2_000, 0);
    assert.notEqual(wayAt(1_999), 'all');
    assert.equal(wayAt(2_000), 'all');
  });

  test('its index is renewed in that rest, before merges become slow', () => {
    const { branch, wayAt } = branchAfter(192);
    branch.succeeded('all', 2_000, 0);
    assert.equal(wayAt(0), 'index');
    branch.succeeded('index', 100, 0);
    assert.equal(wayAt(99), undefined);
    assert.equal(wayAt(100), 'index');
  });

  test('not for a few merges', () => {
    const { branch, wayAt } = branchAfter(15);
    branch.succeeded('all', 2_000, 0);
    assert.equal(wayAt(1_000), undefined);
  });

  test('a branch that failed is left alone, its index too, each time for twice as long', () => {
    const { branch, wayAt } = branchAfter(192);
    assert.equal(branch.failed(0), 1_000);
    assert.equal(wayAt(999), undefined);
    assert.equal(wayAt(1_000), 'all');
    assert.equal(branch.failed(1_000), 2_000);
    branch.succeeded(undefined, 0, 3_000);
    assert.equal(branch.failed(3_000), 1_000);
  });
});

describe('small fragments of a table that takes long (P8)', () => {
  const wide: Layout = {
    committedAtMs: undefined,
    rows: 340_000,
    fragments: [...fragments(1, 300_000), ...fragments(60, 640)].map((fragment, id) => ({ ...fragment, id })),
    bytes: 340_000 * 3_080,
    indexes: [],
  };

  test('take as long as experience says', () => {
    const { branch } = branchAfter(60);
    const before = branch.estimateOf(wide).small;
    assert.ok(before !== undefined && before.heldMs < 20 && before.tailMs > 200);
    branch.learn(wide, 'small', { heldMs: before.heldMs * 3, durationMs: before.heldMs * 3 + 30, isPruned: false });
    const after = branch.estimateOf(wide).small;
    assert.deepEqual([after?.heldMs, after?.tailMs, after?.ids], [before.heldMs * 2, 30, before.ids]);
  });

  test('are fewer where their commit takes longer than was guessed: writers wait no longer than they should', () => {
    const { branch } = branchAfter(60);
    const many = { ...wide, fragments: [...fragments(1, 300_000), ...fragments(900, 40)] };
    const layout = { ...many, fragments: many.fragments.map((fragment, id) => ({ ...fragment, id })) };
    const before = branch.estimateOf(layout).small;
    assert.equal(before?.ids.length, 900);
    branch.learn(layout, 'small', { heldMs: (before?.heldMs ?? 0) * 3, durationMs: 1_000, isPruned: false });
    const after = branch.estimateOf(layout).small;
    assert.ok(after !== undefined && after.ids.length < 500 && after.heldMs <= 200 && after.heldMs > 190);
  });

  test('are looked for again once there may be some', () => {
    const { branch } = branchAfter(2);
    assert.equal(branch.chooseFor({ ...wide, fragments: wide.fragments.slice(0, 3) }, 0), undefined);
    const commit = (times: number): void => {
      for (let i = 0; i < times; i += 1) branch.history.committed({ ...byEngine, isPlaced: true, mostFragments: 0 }, 0);
    };
    commit(13);
    assert.equal(branch.isDue(0), false);
    commit(1);
    assert.equal(branch.isDue(0), true);
    assert.equal(branch.chooseFor({ ...wide, fragments: wide.fragments.slice(0, 3) }, 0), undefined);
    commit(15);
    assert.equal(branch.isDue(0), false, 'not before there are twice as many');
    commit(1);
    assert.equal(branch.isDue(0), true);
  });

  test('are no choice where that has just failed: all are, once they are overdue', () => {
    const { branch } = branchAfter(100);
    assert.equal(branch.chooseFor(wide, 1_000)?.way, 'small');
    branch.failed(1_000);
    assert.equal(branch.chooseFor(wide, 2_000), undefined);
    for (let i = 0; i < 1_000; i += 1) branch.history.committed({ ...byEngine, engineMs: 5 }, 1_000);
    assert.deepEqual(branch.chooseFor(wide, 2_000), { reason: 'overdue', way: 'all' });
    branch.succeeded(undefined, 0, 2_000);
    assert.equal(branch.chooseFor(wide, 2_000)?.way, 'small');
  });

  test('are put together again after as long a rest as that took', () => {
    const { branch } = branchAfter(100);
    const wayAt = (atMs: number): Way | undefined => branch.chooseFor(wide, atMs)?.way;
    assert.equal(wayAt(1_000), 'small');
    branch.succeeded('small', 300, 1_000);
    assert.deepEqual([wayAt(1_299), wayAt(1_300)], [undefined, 'small']);
  });
});
