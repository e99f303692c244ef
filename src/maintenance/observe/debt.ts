/**
 * What the small fragments of a branch have cost its merges since maintenance last removed some: maintenance debt, in
 * milliseconds. It is estimated from the number of fragments, because the times of merges vary by more than a fragment adds
 * (docs/adr/0006). Pure functions; a commit during a job counts for the next one.
 */
import type { Commit } from '../../merge/commit-observer.ts';

export interface Debt {
  /** Commits since the last compaction. Each left a fragment. */
  readonly commits: number;
  readonly commitsSinceFull: number;
  /** Small fragments, those that the last compaction left included. */
  readonly fragments: number;
  /** Since the last compaction. */
  readonly fragmentMs: number;
  /** Fragments that no index covers. */
  readonly unindexed: number;
  /** Time that merges took to read the keys of those, since the indexes were built. */
  readonly scanMs: number;
}

export const noDebt: Debt = {
  commits: 0,
  commitsSinceFull: 0,
  fragments: 0,
  fragmentMs: 0,
  unindexed: 0,
  scanMs: 0,
};

/** A merge reads the keys of a fragment that its index does not cover. */
const scanMsPerFragment = 0.15;
/** A merge opens a fragment, or writes its deletion vector. */
const msPerFragment = 0.2;

export const afterCommit = (
  debt: Debt,
  { gainsByIndex, mostFragments }: Pick<Commit, 'gainsByIndex' | 'mostFragments'>,
): Debt => ({
  commits: debt.commits + 1,
  commitsSinceFull: debt.commitsSinceFull + 1,
  fragments: debt.fragments + 1,
  fragmentMs: debt.fragmentMs + Math.min(debt.fragments, mostFragments) * msPerFragment,
  unindexed: debt.unindexed + 1,
  scanMs: debt.scanMs + (gainsByIndex ? debt.unindexed * scanMsPerFragment : 0),
});

/** `before`: as the debt was when the job began. */
export const afterTiered = (debt: Debt, before: Debt, compacted: number): Debt => ({
  ...debt,
  commits: debt.commits - before.commits,
  fragments: Math.max(0, debt.fragments - compacted),
  fragmentMs: 0,
});

export const afterFull = (debt: Debt, before: Debt): Debt => ({
  ...debt,
  commits: debt.commits - before.commits,
  commitsSinceFull: debt.commitsSinceFull - before.commitsSinceFull,
  fragments: Math.max(0, debt.fragments - before.fragments),
  fragmentMs: 0,
});

export const afterIndexing = (debt: Debt, before: Debt): Debt => ({
  ...debt,
  unindexed: debt.unindexed - before.unindexed,
  scanMs: 0,
});
