import type { Commit } from '../../merge/commit-observer.ts';

/** What one tidying of a branch cost. */
export interface Cost {
  /** How long writers were kept out. */
  readonly heldMs: number;
  /** The rest, beside which writers went on. */
  readonly tailMs: number;
}

/** A moment at which a version became the newest. */
interface Mark {
  readonly atMs: number;
  /** Whatever was committed before this was superseded by then. */
  readonly supersededBeforeMs: number;
  /** Commits up to here, those of tidyings included. */
  readonly commits: number;
}

type Seen = Pick<Commit, 'on' | 'engineMs' | 'gainsByIndex' | 'isPlaced' | 'mostFragments'>;

/** The baseline is the median of so many commits. */
const baselineCommits = 8;
/**
 * What a merge takes longer for each fragment that its index does not cover: 0.15 ms, and 0.013 ms for one that it does (two
 * cores, local ext4, merges of 2 and of 100 rows into 100,000 with 400 fragments).
 */
const scanMsPerFragment = 0.15;
/**
 * The same of one that is read without the index: merges of 640 rows of 3 KB went from 70 to 150 ms over 370 (same machine). Of
 * one that has a row replaced by its place, as much: a file of deletions is written and synced.
 */
const looseMsPerFragment = 0.2;
/** Marks are this part of the retention apart, which is how much longer than asked a version can live. */
const marksPerRetention = 8;

/**
 * What this process has seen of one branch: the facts the policy goes by. Bounded: sums, a few marks, and a count per key
 * column that merges used.
 */
export class BranchHistory {
  readonly #retentionMs: number;
  readonly #mergesOn = new Map<string, number>();
  #marks: Mark[] = [];
  #first: number[] = [];
  #mergeMs = 0;
  #isPlaced = false;
  #lossMs = 0;
  #commitsSinceOptimize = 0;
  #commitsSinceIndex = 0;
  #scanLossMs = 0;
  #scanLossSinceIndexMs = 0;
  #loose = 0;
  #looseLossMs = 0;
  #commits = 0;
  #prunedCommits = 0;
  #lastCommitMs: number | undefined;

  constructor(retentionMs: number) {
    this.#retentionMs = retentionMs;
  }

  /** Commits since the branch was last tidied, each of which left a fragment. */
  get commitsSinceOptimize(): number {
    return this.#commitsSinceOptimize;
  }

  /** What those commits took beyond what the first of them took. Never negative. */
  get lossMs(): number {
    return this.#lossMs;
  }

  /** Those that no index covers. */
  get commitsSinceIndex(): number {
    return this.#commitsSinceIndex;
  }

  get scanLossMs(): number {
    return this.#scanLossMs;
  }

  get scanLossSinceIndexMs(): number {
    return this.#scanLossSinceIndexMs;
  }

  /** What the fragments that were not put together with others yet have cost since some were. */
  get looseLossMs(): number {
    return this.#looseLossMs;
  }

  /** Top-level columns that merges used as their only key, with the number of commits. */
  get mergesOn(): ReadonlyMap<string, number> {
    return this.#mergesOn;
  }

  /** What the last commit took of the engine; 0 before the first. */
  get mergeMs(): number {
    return this.#mergeMs;
  }

  quietForMs(nowMs: number): number {
    return this.#lastCommitMs === undefined ? Number.POSITIVE_INFINITY : nowMs - this.#lastCommitMs;
  }

  committed({ on, engineMs, gainsByIndex, isPlaced, mostFragments }: Seen, nowMs: number): void {
    if (isPlaced !== this.#isPlaced) this.measureAnew();
    this.#isPlaced = isPlaced;
    this.#commits += 1;
    this.#commitsSinceOptimize += 1;
    this.#mergeMs = engineMs;
    this.#addScanLoss(gainsByIndex);
    this.#looseLossMs += Math.min(this.#loose, mostFragments) * looseMsPerFragment;
    this.#loose += 1;
    this.#addLoss(engineMs);
    this.#mark(nowMs);
    const [path, ...others] = on;
    const column = path?.segments.length === 1 && others.length === 0 ? path.segments[0] : undefined;
    if (column !== undefined) this.#mergesOn.set(column, (this.#mergesOn.get(column) ?? 0) + 1);
  }

  /**
   * The fragments of all commits were put together, save those that came `meanwhile`. To be called while writers are still kept
   * out: what is committed next is younger than this call.
   */
  rewritten(nowMs: number, meanwhile = 0): void {
    this.indexed(this.#commitsSinceIndex - meanwhile);
    this.moved(this.#loose - meanwhile, nowMs, meanwhile);
  }

  /** So many of them were; no index covers what came of it. To be called as `rewritten`. */
  moved(fragments: number, nowMs: number, meanwhile = 0): void {
    this.foundTidy(this.#commitsSinceOptimize - meanwhile);
    this.#putTogether(fragments);
    this.changed(nowMs);
  }

  /** The fragments of the first `commits` of those commits cannot be put together. */
  foundTidy(commits: number): void {
    this.#commitsSinceOptimize -= commits;
    this.measureAnew();
  }

  /** Upkeep has committed. */
  changed(nowMs: number): void {
    this.#commits += 1;
    this.#mark(nowMs);
  }

  /** What commits take has changed for another reason than their number, such as an index. */
  measureAnew(): void {
    this.#lossMs = 0;
    this.#scanLossMs = 0;
    this.#first = [];
  }

  /** The first `commits` of those since the last time are covered by an index, or put together as one fragment. */
  indexed(commits: number): void {
    this.#commitsSinceIndex -= commits;
    this.#scanLossSinceIndexMs = 0;
  }

  /** What was to be pruned, whether or not a tag was in the way. */
  pruned(supersededBeforeMs: number): void {
    const isDone = (mark: Mark): boolean => mark.supersededBeforeMs <= supersededBeforeMs;
    this.#prunedCommits = this.#marks.findLast(isDone)?.commits ?? this.#prunedCommits;
    this.#marks = this.#marks.filter((mark) => !isDone(mark));
  }

  /** Commits made before this time made versions that no reader may rely on any more; undefined where there is none. */
  supersededBeforeMs(nowMs: number): number | undefined {
    return this.#markAt(nowMs)?.supersededBeforeMs;
  }

  /** How many versions a pruning would remove, roughly. */
  prunableVersions(nowMs: number): number {
    return Math.max(0, (this.#markAt(nowMs)?.commits ?? 0) - this.#prunedCommits);
  }

  /** How many it would leave and have to read, roughly. */
  keptVersions(nowMs: number): number {
    return this.#commits - Math.max(this.#markAt(nowMs)?.commits ?? 0, this.#prunedCommits);
  }

  #putTogether(fragments: number): void {
    this.#loose = Math.max(0, this.#loose - fragments);
    this.#looseLossMs = 0;
  }

  #addScanLoss(gainsByIndex: boolean): void {
    const scanMs = gainsByIndex ? this.#commitsSinceIndex * scanMsPerFragment : 0;
    this.#commitsSinceIndex += 1;
    this.#scanLossMs += scanMs;
    this.#scanLossSinceIndexMs += scanMs;
  }

  /** The sum falls as well as it rises, so that noise does not add up. */
  #addLoss(engineMs: number): void {
    if (this.#first.length < baselineCommits) {
      this.#first.push(engineMs);
      return;
    }
    this.#lossMs = Math.max(0, this.#lossMs + engineMs - median(this.#first));
  }

  /**
   * A version became the newest between the call before this one and now. So whatever was committed before that call is
   * superseded by now at the latest.
   */
  #mark(nowMs: number): void {
    const before = this.#lastCommitMs;
    this.#lastCommitMs = nowMs;
    if (before === undefined) return;
    const mark = { atMs: nowMs, supersededBeforeMs: before, commits: this.#commits };
    // The newest mark is replaced until it is far enough from the one before it, so the last commit always has one.
    const isCrowded = nowMs - (this.#marks.at(-2)?.atMs ?? -Infinity) < this.#retentionMs / marksPerRetention;
    if (isCrowded) this.#marks.pop();
    this.#marks.push(mark);
    const due = this.#marks.findLastIndex(({ atMs }) => atMs <= nowMs - this.#retentionMs);
    if (due > 0) this.#marks.splice(0, due);
  }

  #markAt(nowMs: number): Mark | undefined {
    return this.#marks.findLast(({ atMs }) => atMs <= nowMs - this.#retentionMs);
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}
