import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BranchHistory } from '#src/maintenance/observe/branch-history.ts';
import { byEngine } from './seen-commit.ts';

const retentionMs = 1_000;
const on = [{ segments: ['id'] }];

/** Commits at these times, each taking a millisecond. */
function historyOf(...timesMs: number[]): BranchHistory {
  const history = new BranchHistory(retentionMs);
  for (const atMs of timesMs) history.committed(byEngine, atMs);
  return history;
}

describe('which versions are old enough to go', () => {
  test('none while the last of them was the newest a moment ago', () => {
    assert.equal(historyOf(0, 500).supersededBeforeMs(1_499), undefined);
  });

  test('those before the one that was superseded when the retention began, not that one', () => {
    // The version of 500 took the place of the one of 0, a second before.
    assert.equal(historyOf(0, 500).supersededBeforeMs(1_500), 0);
    assert.equal(historyOf(0, 500, 900).supersededBeforeMs(1_899), 0);
    assert.equal(historyOf(0, 500, 900).supersededBeforeMs(1_900), 500);
  });

  test('a version that was the newest for a year lives for the retention after that', () => {
    const yearMs = 31_536_000_000;
    const history = historyOf(0, 10, yearMs);
    assert.equal(history.supersededBeforeMs(yearMs + 999), 0);
    assert.equal(history.supersededBeforeMs(yearMs + 1_000), 10);
  });

  test('under a stream of commits they go an eighth of the retention late at most', () => {
    const times = Array.from({ length: 5_000 }, (_, i) => i);
    const history = historyOf(...times);
    const before = history.supersededBeforeMs(4_999) ?? 0;
    assert.ok(before <= 3_998 && before >= 3_998 - retentionMs / 8, String(before));
  });

  test('what was pruned is not asked for again, and a tidying makes one more version to go', () => {
    const history = historyOf(0, 500);
    assert.equal(history.prunableVersions(1_500), 2);
    history.pruned(0);
    assert.equal(history.prunableVersions(1_500), 0);
    history.rewritten(2_000);
    assert.equal(history.prunableVersions(2_999), 0);
    assert.equal(history.prunableVersions(3_000), 1);
    assert.equal(history.keptVersions(2_999), 1);
    assert.equal(history.keptVersions(3_000), 0);
    assert.equal(history.supersededBeforeMs(3_000), 500);
  });
});

describe('what upkeep commits', () => {
  test('supersedes the last merge, so that it goes from a table that stays quiet', () => {
    const history = historyOf(0, 500);
    history.changed(700);
    assert.equal(history.supersededBeforeMs(1_700), 500);
    history.rewritten(5_000);
    history.changed(5_100);
    assert.equal(history.supersededBeforeMs(6_000), 700);
    assert.equal(history.supersededBeforeMs(6_100), 5_000);
    assert.equal(history.prunableVersions(6_100), 5);
  });

  test('is nothing where there was nothing to put together: the newest version stays the newest', () => {
    const history = historyOf(0, 500);
    history.foundTidy(2);
    history.committed(byEngine, 5_000);
    assert.equal(history.supersededBeforeMs(5_999), 0);
    assert.equal(history.supersededBeforeMs(6_000), 500);
  });
});

describe('what commits lose', () => {
  const commits = (history: BranchHistory, engineMs: number, count: number): void => {
    for (let i = 0; i < count; i++) history.committed({ ...byEngine, engineMs }, i);
  };

  test('is what they take beyond the first eight since the last tidying', () => {
    const history = historyOf();
    commits(history, 10, 8);
    assert.equal(history.lossMs, 0);
    commits(history, 14, 5);
    assert.equal(history.lossMs, 20);
    history.rewritten(20);
    assert.equal(history.lossMs, 0);
    assert.equal(history.commitsSinceOptimize, 0);
    commits(history, 14, 10);
    assert.equal(history.lossMs, 0);
  });

  test('is no sum of noise', () => {
    const history = historyOf();
    commits(history, 10, 8);
    for (let i = 0; i < 100; i++) commits(history, i % 2 === 0 ? 12 : 8, 1);
    assert.ok(history.lossMs <= 2);
  });

  test('commits that came while a tidying found nothing to put together count for the next time', () => {
    const history = historyOf(1, 2, 3);
    history.foundTidy(2);
    assert.equal(history.commitsSinceOptimize, 1);
  });
});

describe('what fragments cost that were not put together (P8)', () => {
  const after = (commits: number): BranchHistory => historyOf(...Array.from({ length: commits }, (_, i) => i));

  test('grows with each, and those that were not chosen go on costing', () => {
    const history = after(100);
    assert.ok(Math.abs(history.looseLossMs - (0.2 * 99 * 100) / 2) < 1e-6);
    history.moved(60, 100);
    assert.deepEqual([history.looseLossMs, history.commitsSinceOptimize, history.lossMs], [0, 0, 0]);
    history.committed(byEngine, 101);
    assert.ok(Math.abs(history.looseLossMs - 0.2 * 40) < 1e-6);
    history.rewritten(102);
    history.committed(byEngine, 103);
    assert.equal(history.looseLossMs, 0);
  });

  test('is that of the fragments alone that lost a row, where rows are replaced by their places', () => {
    const history = after(100);
    history.moved(0, 100);
    for (const mostFragments of [1, 30, 1_000]) {
      history.committed({ on, engineMs: 1, gainsByIndex: false, isPlaced: true, mostFragments }, 101);
    }
    assert.ok(Math.abs(history.looseLossMs - 0.2 * (1 + 30 + 102)) < 1e-6);
  });

  test('the other way of committing is measured by itself', () => {
    const history = after(20);
    for (let i = 0; i < 20; i++) {
      history.committed({ on, engineMs: 10 + i, gainsByIndex: false, isPlaced: true, mostFragments: 1 }, 1);
    }
    assert.ok(history.lossMs > 50, 'against the first of its own, not those of before');
  });

  test('no index covers what came of them', () => {
    const history = after(10);
    history.moved(10, 100);
    assert.equal(history.commitsSinceIndex, 10);
    history.rewritten(101);
    assert.equal(history.commitsSinceIndex, 0);
  });

  test('merges that would do without an index lose nothing to rows that it does not cover', () => {
    const history = historyOf();
    for (let i = 0; i < 20; i++)
      history.committed(
        { on, engineMs: 1, gainsByIndex: false, isPlaced: false, mostFragments: Number.POSITIVE_INFINITY },
        i,
      );
    assert.deepEqual([history.scanLossMs, history.scanLossSinceIndexMs], [0, 0]);
    history.committed(byEngine, 20);
    assert.ok(Math.abs(history.scanLossSinceIndexMs - 20 * 0.15) < 1e-6);
  });
});

test('only merges on one top-level column ask for an index', () => {
  const history = new BranchHistory(retentionMs);
  for (const key of [['a'], ['a'], ['b', 'inner']])
    history.committed(
      {
        on: [{ segments: key }],
        engineMs: 1,
        gainsByIndex: true,
        isPlaced: false,
        mostFragments: Number.POSITIVE_INFINITY,
      },
      0,
    );
  history.committed(
    {
      on: [{ segments: ['a'] }, { segments: ['b'] }],
      engineMs: 1,
      gainsByIndex: true,
      isPlaced: false,
      mostFragments: Number.POSITIVE_INFINITY,
    },
    0,
  );
  assert.deepEqual([...history.mergesOn], [['a', 2]]);
});
