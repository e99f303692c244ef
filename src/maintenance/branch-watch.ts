import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { Commit } from '../write/write.ts';
import { fanIn, type Inspection, keysToIndex, type Need, needsOf, needsPruning, type Plan, quietMs } from './plan.ts';
import type { BranchRef } from './report.ts';

export interface WatchPolicy {
  /** How long a version stays after it was superseded. */
  readonly retentionMs: number;
  /** A table with as many rows gets an index on its merge key. */
  readonly indexFromRows: number;
}

/** A look is tried again as a job is. */
type Tried = Plan['job'] | 'look';

/**
 * Knows what this process has seen of one branch, and which plan that leads to. It is bounded: sums, a few marks, and the key columns.
 */
export class BranchWatch {
  readonly target: BranchRef;
  readonly ages: VersionAges;
  readonly #policy: WatchPolicy;
  /** Merges used these top-level columns as their only key; true once a second merge has. */
  readonly #keys = new Map<string, boolean>();
  readonly #notBeforeMs: Record<Tried, number> = { look: 0, compact: 0, index: 0, prune: 0 };
  #commits = 0;
  /** What the last look found, and how many commits there had been then. */
  #seen: { readonly needs: readonly Need[]; readonly commits: number } | undefined;
  readonly #lastTookMs: Record<Plan['job'], number> = { compact: 0, index: 0, prune: 0 };
  #failures = 0;

  constructor({ table, tableId, branch, location }: BranchRef, policy: WatchPolicy) {
    this.target = { table, tableId, branch, location };
    this.ages = new VersionAges(policy.retentionMs);
    this.#policy = policy;
  }

  /** Counts the commits since the last compaction of the branch that this process has seen. */
  get commits(): number {
    return this.#commits;
  }

  committed({ on }: Pick<Commit, 'on'>, nowMs: number): void {
    this.#commits += 1;
    this.ages.committed(nowMs);
    const [path, ...others] = on;
    const column = path?.segments.length === 1 && others.length === 0 ? path.segments[0] : undefined;
    // The first merge may be the only one; the second says that more will come.
    if (column !== undefined) this.#keys.set(column, this.#keys.has(column));
  }

  /** Gives the indexes that merges ask for. Merges into other branches than main use none. */
  toIndex(found: Pick<Inspection, 'layout' | 'schema'>): readonly IndexSpec[] {
    if (this.target.branch !== undefined) return [];
    const keys = [...this.#keys].flatMap(([column, isRepeated]) => (isRepeated ? column : []));
    return keysToIndex(found, keys, this.#policy.indexFromRows);
  }

  /** Says whether there is a job, or a look may lead to one. */
  isDue(nowMs: number, mayPrune: boolean): boolean {
    if (nowMs < this.#notBeforeMs.look) return false;
    if (this.#seen === undefined) return true;
    const unseen = this.#commits - this.#seen.commits;
    const mayHaveChanged = unseen >= fanIn || (unseen > 0 && this.#isQuiet(nowMs));
    if (mayHaveChanged && nowMs >= this.#notBeforeMs.compact) return true;
    return this.#choose(nowMs, mayPrune) !== undefined;
  }

  /** Decides what is to be done now. `commits` are those from when the branch was looked at. */
  plan(found: Inspection, commits: number, nowMs: number, mayPrune: boolean): Plan | undefined {
    this.#seen = { needs: needsOf(found, this.toIndex(found)), commits };
    return this.#choose(nowMs, mayPrune);
  }

  /** Notes that maintenance has made a version. `compacted` are the commits whose fragments it has compacted. */
  maintained(compacted: number, nowMs: number): void {
    this.#commits -= compacted;
    this.#seen = undefined;
    this.ages.committed(nowMs);
  }

  /** Until the job has ended there is no second one of its kind. */
  begins(job: Plan['job']): void {
    this.#notBeforeMs[job] = Number.POSITIVE_INFINITY;
  }

  /**
   * Jobs of a kind take half of the time at most. An index is built every five seconds at most: clients may write a quarter of a
   * table in less, merges by row address read no index, and a query reads the rows that it lacks.
   */
  succeeded(job: Plan['job'], tookMs: number, nowMs: number): void {
    this.#failures = 0;
    this.#notBeforeMs[job] = nowMs + (job === 'index' ? Math.max(tookMs, quietMs) : tookMs);
    this.#lastTookMs[job] = tookMs;
  }

  /** Returns for how long there is no other attempt: each time twice as long. */
  failed(attempt: Tried, nowMs: number): number {
    const retryAfterMs = Math.min(300_000, 1_000 * 2 ** this.#failures);
    this.#failures += 1;
    this.#notBeforeMs[attempt] = nowMs + retryAfterMs;
    return retryAfterMs;
  }

  #choose(nowMs: number, mayPrune: boolean): Plan | undefined {
    const isQuiet = this.#isQuiet(nowMs);
    const isToPrune = mayPrune && needsPruning(this.ages.removable(nowMs), this.ages.kept(nowMs), isQuiet);
    const plans = (this.#seen?.needs ?? []).flatMap(({ plan, isForQuiet }) => (isForQuiet && !isQuiet ? [] : [plan]));
    const prune: readonly Plan[] = isToPrune ? [{ job: 'prune', reason: 'old versions' }] : [];
    return [...prune, ...plans].find(({ job }) => nowMs >= this.#notBeforeMs[job]);
  }

  #isQuiet(nowMs: number): boolean {
    const { compact, index } = this.#lastTookMs;
    // Building an index or writing rows again takes a third of the time at most where there is hardly a commit.
    return this.ages.quietForMs(nowMs) >= Math.max(quietMs, 2 * Math.max(compact, index));
  }
}

/** How many versions of the branch there were at a time, as far as this process has seen. */
interface Mark {
  readonly atMs: number;
  readonly versions: number;
}

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
    // Marks are this part of the retention apart, which is how much longer than asked a version can live.
    const isClose = nowMs - (this.#marks.at(-2)?.atMs ?? -Infinity) < this.#retentionMs / 8;
    const marks = [...(isClose ? this.#marks.slice(0, -1) : this.#marks), mark];
    const firstNeeded = marks.findLastIndex(({ atMs }) => atMs <= nowMs - this.#retentionMs);
    this.#marks = marks.slice(Math.max(0, firstNeeded));
  }

  quietForMs(nowMs: number): number {
    return nowMs - (this.#marks.at(-1)?.atMs ?? -Infinity);
  }

  /** Counts the versions that a removal would find. */
  removable(nowMs: number): number {
    return Math.max(0, this.#superseded(nowMs) - this.#removed);
  }

  /** Counts the versions that a removal would have to keep and read. */
  kept(nowMs: number): number {
    return this.#versions - Math.max(this.#superseded(nowMs), this.#removed);
  }

  /** The removal began at `nowMs`. */
  removed(nowMs: number): void {
    this.#removed = Math.max(this.#removed, this.#superseded(nowMs));
  }

  /** Each version took the place of one before it. */
  #superseded(nowMs: number): number {
    return this.#marks.findLast(({ atMs }) => atMs <= nowMs - this.#retentionMs)?.versions ?? 0;
  }
}
