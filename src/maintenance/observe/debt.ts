/**
 * What the small fragments of a branch have cost its merges since maintenance last removed some: maintenance debt, in
 * milliseconds. It is estimated from the number of fragments, because the times of merges vary by more than a fragment adds
 * (docs/design/maintenance.md). Pure functions; a commit during a job counts for the next one.
 */
import type { Commit } from '../../write/commit-observer.ts';

export interface Debt {
  /** Commits since the last compaction. Each left a fragment. */
  readonly commits: number;
  readonly commitsSinceFull: number;
  /** Small fragments, those that the last compaction left included. */
  readonly fragments: number;
  /** Time that merges have lost to fragments since the last compaction. */
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
/** A merge opens a fragment, or makes, writes and syncs its deletion vector. */
const mergeMsPerFragment = 0.4;

export const afterCommit = (
  debt: Debt,
  { gainsByIndex, mostFragments }: Pick<Commit, 'gainsByIndex' | 'mostFragments'>,
): Debt => ({
  commits: debt.commits + 1,
  commitsSinceFull: debt.commitsSinceFull + 1,
  fragments: debt.fragments + 1,
  fragmentMs: debt.fragmentMs + Math.min(debt.fragments, mostFragments) * mergeMsPerFragment,
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

/** How many versions of a branch were made when, as far as this process has seen. */
interface Mark {
  readonly atMs: number;
  /** Versions made up to then. */
  readonly versions: number;
}

/** Marks are this part of the retention apart, which is how much longer than asked a version can live. */
const marksPerRetention = 8;

/**
 * A version can be removed once the retention has passed since the next one took its place. This estimates how many can, so
 * that manifests are read only when it is worth it.
 */
export class VersionAges {
  readonly #retentionMs: number;
  #marks: readonly Mark[] = [];
  #versions = 0;
  #removed = 0;

  constructor(retentionMs: number) {
    this.#retentionMs = retentionMs;
  }

  committed(nowMs: number): void {
    this.#versions += 1;
    const mark = { atMs: nowMs, versions: this.#versions };
    // The newest mark moves on until it is far enough from the one before it, so the last commit always has one.
    const isClose = nowMs - (this.#marks.at(-2)?.atMs ?? -Infinity) < this.#retentionMs / marksPerRetention;
    const marks = [...(isClose ? this.#marks.slice(0, -1) : this.#marks), mark];
    const firstNeeded = marks.findLastIndex(({ atMs }) => atMs <= nowMs - this.#retentionMs);
    this.#marks = marks.slice(Math.max(0, firstNeeded));
  }

  quietForMs(nowMs: number): number {
    return nowMs - (this.#marks.at(-1)?.atMs ?? -Infinity);
  }

  /** How many versions a removal would find. */
  removable(nowMs: number): number {
    return Math.max(0, this.#superseded(nowMs) - this.#removed);
  }

  /** How many versions a removal would have to keep and read. */
  kept(nowMs: number): number {
    return this.#versions - Math.max(this.#superseded(nowMs), this.#removed);
  }

  /** `nowMs`: when the removal began. */
  removed(nowMs: number): void {
    this.#removed = Math.max(this.#removed, this.#superseded(nowMs));
  }

  /** Each version took the place of one before it. */
  #superseded(nowMs: number): number {
    return this.#marks.findLast(({ atMs }) => atMs <= nowMs - this.#retentionMs)?.versions ?? 0;
  }
}
