/**
 * Keeps tables fast by itself (P8): watches what commits cost, and tidies the branch that loses most, one at a time for the
 * whole process; only the removal of old versions goes on beside the next job. What it knows is in memory only: after a
 * start a table is looked after from its first commit on.
 *
 * A job that fails is tried again later, each time after twice as long. Closing waits for the job under way: the engine
 * cannot be told to stop, and what it leaves when the process ends is what a crash leaves.
 */
import type { Layout } from '../engine/port/engine.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { ReadWriteLock } from '../kernel/read-write-lock.ts';
import type { Commit, CommitObserver } from '../merge/commit-observer.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { ByHand } from './act/by-hand.ts';
import type { Upkeep } from './act/upkeep.ts';
import type { Extent, Way } from './decide/estimate.ts';
import {
  type Choice,
  indexFromMerges,
  isPruned,
  isTidiedBeforeIndex,
  plainColumns,
  type UpkeepLimits,
} from './decide/policy.ts';
import type { BranchRef, JobReport } from './job.ts';
import { JobLog } from './job-log.ts';
import { Jobs } from './jobs.ts';
import type { BranchHistory } from './observe/branch-history.ts';
import { columnsToIndexNow, inspection } from './observe/inspection.ts';
import { WatchedBranch } from './observe/watched-branch.ts';

export interface MaintenanceParts {
  readonly upkeep: Upkeep;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly limits: MaintenanceLimits;
}

export interface MaintenanceLimits extends UpkeepLimits {
  /** False leaves all to `maintainByHand`. */
  readonly isAutomatic: boolean;
  /** How long a version is kept after it was superseded. */
  readonly retentionMs: number;
}

type Tidying = Omit<Choice, 'way'> & { readonly extent: Extent };

const checkEveryMs = 1_000;
/** Beyond it, the branches written to longest ago are left as they are. */
const maxWatched = 4_096;

export class Maintenance implements CommitObserver {
  readonly #parts: MaintenanceParts;
  readonly #log: JobLog;
  readonly #jobs: Jobs;
  readonly #byHand: ByHand;
  readonly #watched = new Map<string, WatchedBranch>();
  /** Jobs take turns: two at once would leave a machine of two cores to none of the writers. */
  readonly #lock = new ReadWriteLock(Number.POSITIVE_INFINITY);
  readonly #stopping = new AbortController();
  #cancelCheck: (() => void) | undefined;
  #isRunning = false;
  /** The removal of versions that other jobs go on beside, if one is under way. Never rejects. */
  #pruning: Promise<void> | undefined;

  constructor(parts: MaintenanceParts) {
    this.#parts = parts;
    this.#log = new JobLog(parts);
    this.#jobs = new Jobs({ ...parts, log: this.#log });
    this.#byHand = new ByHand({ ...parts, jobs: this.#jobs, log: this.#log });
  }

  committed(commit: Commit): void {
    if (!this.#parts.limits.isAutomatic || this.#stopping.signal.aborted) return;
    const watched = this.#watch(commit);
    watched.history.committed(commit, this.#nowMs);
    if (mayAskForIndex(watched.history)) watched.lookAgain();
    this.#checkLater();
    if (watched.isDue(this.#nowMs, this.#mayPrune)) void this.#run();
  }

  get #nowMs(): number {
    return this.#parts.clock.nowMs();
  }

  get #mayPrune(): boolean {
    return this.#pruning === undefined;
  }

  /**
   * Tidies main and all branches now, whatever the measurements say, and builds the indexes that merges seen so far ask for.
   * Resolves to what was done; throws what the engine throws.
   */
  async maintainByHand(main: BranchRef): Promise<readonly JobReport[]> {
    const leave = await this.#lock.acquire('exclusive', this.#stopping.signal);
    try {
      await this.#pruning;
      return await this.#byHand.maintain(main, (target) => this.#watched.get(keyOf(target))?.history);
    } finally {
      leave();
    }
  }

  /**
   * Removes old versions of main and of all branches if space on the disk is short. Never rejects: failures go to the log.
   */
  async pruneTable(main: BranchRef): Promise<void> {
    try {
      const leave = await this.#lock.acquire('exclusive', this.#stopping.signal);
      try {
        await this.#pruning;
        await this.#pruneBranches(main);
      } finally {
        leave();
      }
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#log.failed(main, undefined, error, 'prune');
    }
  }

  async #pruneBranches(main: BranchRef): Promise<void> {
    const supersededBeforeMs = this.#nowMs - this.#parts.limits.retentionMs;
    const branches = await this.#parts.upkeep.inspect(main, (dataset) => dataset.listBranches());
    for (const branch of [undefined, ...(branches ?? []).map(({ name }) => name)]) {
      await this.#jobs.prune({ ...main, branch }, supersededBeforeMs);
    }
  }

  /** Begins nothing new, and resolves when the job under way has ended. */
  async close(): Promise<void> {
    this.#cancelCheck?.();
    const last = this.#lock.acquire('exclusive', new AbortController().signal);
    this.#stopping.abort(new LancegateError('SlowDown', 'the service is stopping'));
    (await last)();
    await this.#pruning;
  }

  #watch(target: BranchRef): WatchedBranch {
    const key = keyOf(target);
    const watched = this.#watched.get(key) ?? new WatchedBranch(target, this.#parts.limits);
    this.#watched.delete(key);
    this.#watched.set(key, watched);
    const [oldest] = this.#watched.keys();
    if (this.#watched.size > maxWatched && oldest !== undefined) this.#watched.delete(oldest);
    return watched;
  }

  /** Quiet branches and versions that grow old are noticed by looking now and then, for as long as there are any. */
  #checkLater(): void {
    if (this.#cancelCheck !== undefined || this.#stopping.signal.aborted) return;
    this.#cancelCheck = this.#parts.clock.schedule(checkEveryMs, () => {
      this.#cancelCheck = undefined;
      this.#forgetQuiet();
      if (this.#watched.size > 0) this.#checkLater();
      void this.#run();
    });
  }

  /** By then all that can be done for them is done, or other branches have kept us from it. */
  #forgetQuiet(): void {
    const { limits } = this.#parts;
    const longMs = 2 * limits.retentionMs + 60_000;
    const nowMs = this.#nowMs;
    for (const [key, watched] of this.#watched) {
      if (watched.history.quietForMs(nowMs) > longMs && !watched.isDue(nowMs)) this.#watched.delete(key);
    }
  }

  /** Until nothing is due; what comes due meanwhile is seen too. Never rejects. */
  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    for (let next = this.#mostUrgent(); next !== undefined; next = this.#mostUrgent()) await this.#attend(next);
    this.#isRunning = false;
  }

  #mostUrgent(): WatchedBranch | undefined {
    if (this.#stopping.signal.aborted) return undefined;
    const nowMs = this.#nowMs;
    const due = [...this.#watched.values()].filter((watched) => watched.isDue(nowMs, this.#mayPrune));
    return due.sort((a, b) => b.history.lossMs - a.history.lossMs)[0];
  }

  async #attend(watched: WatchedBranch): Promise<void> {
    const leave = await this.#lock.acquire('exclusive', new AbortController().signal);
    const startMs = performance.now();
    try {
      if (this.#stopping.signal.aborted) return;
      const way = await this.#look(watched);
      watched.succeeded(way, performance.now() - startMs, this.#nowMs);
    } catch (error) {
      this.#log.failed(watched.target, watched.failed(this.#nowMs), error);
    } finally {
      leave();
    }
  }

  /** Answers what was done, beside building a first index. */
  async #look(watched: WatchedBranch): Promise<Way | undefined> {
    const { target, history } = watched;
    const found = await this.#parts.upkeep.inspect(target, inspection);
    if (found === undefined) {
      this.#watched.delete(keyOf(target));
      return undefined;
    }
    const layout = layoutFor(target, found.layout);
    await this.#warmIndexes(watched, layout);
    const columns = columnsToIndexNow(target, history, found, this.#parts.limits);
    if (columns.length > 0) {
      await this.#buildIndexes(watched, columns, found.layout);
      return undefined;
    }
    const choice = watched.chooseFor(layout, this.#nowMs, this.#mayPrune);
    if (choice?.way === 'index') await this.#renewIndexes(watched, layout);
    else if (choice !== undefined) await this.#tidy(watched, layout, { ...choice, extent: choice.way });
    return choice?.way;
  }

  /** Once, those that were there before: what is built here is read at once. */
  async #warmIndexes(watched: WatchedBranch, { indexes }: Layout): Promise<void> {
    const { target, history } = watched;
    if (!watched.beginWarming()) return;
    for (const column of plainColumns(indexes).filter((each) => history.mergesOn.has(each))) {
      if (!(await this.#parts.upkeep.warmIndex(target, column))) this.#log.indexTooLarge(target, column);
    }
  }

  async #tidy(watched: WatchedBranch, layout: Layout, choice: Tidying): Promise<void> {
    const { target, history } = watched;
    const { extent, reason, fragments = [] } = choice;
    const pruneBeforeMs = isPruned(reason) ? (history.supersededBeforeMs(this.#nowMs) ?? 0) : 0;
    if (pruneBeforeMs > 0) await this.#jobs.prune(target, this.#nowMs - this.#parts.limits.retentionMs);
    const onlyPruning = Promise.withResolvers<void>();
    const onOnlyPruning = (): void => {
      if (pruneBeforeMs > 0) onlyPruning.resolve();
    };
    const task = { target, history, reason, extent, fragments, pruneBeforeMs, onOnlyPruning };
    const job = this.#jobs.optimize(task).then((report) => {
      if (report === undefined || report.removedFragments === 0) return;
      watched.learn(layout, extent, { ...report, isPruned: pruneBeforeMs > 0 });
    });
    const isDone = await Promise.race([job.then(() => true), onlyPruning.promise.then(() => false)]);
    if (!isDone) this.#goOnBeside(watched, job);
    watched.lookAgain();
  }

  /** What has come due when it ends is seen by the next check. */
  #goOnBeside(watched: WatchedBranch, job: Promise<void>): void {
    const failed = (error: unknown): void => this.#log.failed(watched.target, watched.failed(this.#nowMs), error);
    this.#pruning = job.catch(failed).then(() => {
      this.#pruning = undefined;
    });
  }

  /** What is committed meanwhile is for the next time. */
  async #renewIndexes(watched: WatchedBranch, layout: Layout): Promise<void> {
    const { target, history } = watched;
    const commits = history.commitsSinceIndex;
    let durationMs = 0;
    for (const column of plainColumns(layout.indexes)) {
      durationMs += (await this.#jobs.buildIndex(target, column, 'slower', history))?.durationMs ?? 0;
    }
    history.indexed(commits);
    watched.learn(layout, 'index', { heldMs: 0, durationMs, isPruned: false });
    watched.lookAgain();
  }

  async #buildIndexes(watched: WatchedBranch, columns: readonly string[], layout: Layout): Promise<void> {
    const { target, history } = watched;
    if (isTidiedBeforeIndex(layout, watched.estimateOf(layout), history.mergeMs)) {
      await this.#jobs.optimize({ target, history, reason: 'index', extent: 'all', pruneBeforeMs: 0 });
    }
    // Those that come while it is built are not in it.
    const commits = history.commitsSinceIndex;
    for (const column of columns) await this.#jobs.buildIndex(target, column, 'merges on the column', history);
    history.measureAnew();
    history.indexed(commits);
    watched.lookAgain();
  }
}

/** The writer does not use the indexes of a branch, so they are no reason to do anything. */
const layoutFor = ({ branch }: BranchRef, layout: Layout): Layout =>
  branch === undefined ? layout : { ...layout, indexes: [] };

/** The second merge on a column does. */
const mayAskForIndex = ({ mergesOn }: BranchHistory): boolean => [...mergesOn.values()].includes(indexFromMerges);

const keyOf = ({ tableId, branch }: BranchRef): string => JSON.stringify([tableId, branch ?? null]);
