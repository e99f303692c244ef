/**
 * Keeps tables fast by itself (P8): watches commits, and maintains the branch that has had the most of them, one at a time for the
 * whole process; only the removal of old versions and index builds run concurrently with the next job. What it knows is in
 * memory only: after a start a table is maintained from its first commit on.
 *
 * A job that fails is tried again later, each time after twice as long. Closing ends the processes of the jobs under way, and
 * waits for what they leave to be removed.
 */
import type { VersionRange } from '../engine/port/upkeep.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError, notTheFirstStepIf } from '../kernel/errors.ts';
import { showTable, type TableRef } from '../kernel/ids.ts';
import { neverAborts, ReadWriteLock } from '../kernel/read-write-lock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Commit, CommitObserver } from '../write/write.ts';
import type { MaintenanceActions } from './act/maintenance-actions.ts';
import { BranchWatch, type WatchPolicy } from './branch-watch.ts';
import { MaintenanceJobs, MaintenanceLog } from './jobs.ts';
import { type Plan, quietMs } from './plan.ts';
import { type BranchRef, type JobReport, keyOf, type PruneReport } from './report.ts';

interface SchedulerDeps {
  readonly actions: MaintenanceActions;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly policy: SchedulerPolicy;
}

export interface SchedulerPolicy extends WatchPolicy {
  /** False leaves everything to `maintainByHand`. */
  readonly isAutomatic: boolean;
}

export class MaintenanceScheduler implements CommitObserver {
  readonly #deps: SchedulerDeps;
  readonly #log: MaintenanceLog;
  readonly #jobs: MaintenanceJobs;
  readonly #watched = new Map<string, BranchWatch>();
  /** It lets one job run at a time: two at once would leave a machine of two cores to none of the writers. */
  readonly #lock = new ReadWriteLock(Number.POSITIVE_INFINITY, 'maintenance jobs');
  readonly #stopping = new AbortController();
  #cancelCheck: (() => void) | undefined;
  #isRunning = false;
  /** The removal of old versions that is under way. Never rejects. */
  #pruning: Promise<void> | undefined;
  /** The index builds that are under way or wait for a process. None rejects. */
  readonly #builds = new Set<Promise<void>>();

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    this.#log = new MaintenanceLog(deps);
    this.#jobs = new MaintenanceJobs({ ...deps, log: this.#log, stopping: this.#stopping.signal });
  }

  committed(commit: Commit): void {
    if (!this.#deps.policy.isAutomatic || this.#stopping.signal.aborted) return;
    const watch = this.#watch(commit);
    watch.committed(commit, this.#nowMs);
    this.#checkLater();
    if (watch.isDue(this.#nowMs, this.#mayPrune)) void this.#run();
  }

  /** Maintains main and all branches now, whatever they need, and builds the indexes that merges seen so far ask for. */
  async maintainByHand(main: BranchRef): Promise<readonly JobReport[]> {
    const reports: JobReport[] = [];
    await this.#onBranches(main, async (target) => {
      const watch = this.#watched.get(keyOf(target)) ?? new BranchWatch(target, this.#deps.policy);
      reports.push(...(await this.#jobs.maintainNow(watch).catch(notTheFirstStepIf(reports.length > 0))));
    });
    return reports;
  }

  /**
   * Removes versions of a branch in these ranges now, but for those that pruning would leave there at any age. It waits for the
   * job under way, which may read one of them. undefined if the table does not exist any more.
   */
  async removeVersions(
    target: BranchRef,
    ranges: readonly VersionRange[],
    signal: AbortSignal,
  ): Promise<PruneReport | undefined> {
    const release = await this.#lock.acquire('exclusive', AbortSignal.any([signal, this.#stopping.signal]));
    try {
      await this.#pruning;
      return await this.#jobs.removeVersions(target, ranges);
    } finally {
      release();
    }
  }

  /** Removes old versions of main and of all branches; for space, if the disk is short of it. Never rejects. */
  async pruneTable(main: BranchRef, reason: 'little room' | 'old versions'): Promise<void> {
    const prune = (target: BranchRef) =>
      reason === 'little room' ? this.#jobs.pruneForSpace(target) : this.#jobs.prune(target, reason);
    try {
      await this.#onBranches(main, prune);
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#log.failed(main, 'prune', error);
    }
  }

  /** Another process maintains the table from now on. */
  forget(table: TableRef): void {
    const name = showTable(table);
    for (const [key, { target }] of this.#watched) if (showTable(target.table) === name) this.#watched.delete(key);
  }

  /** Begins nothing new, and resolves when the job under way has ended. */
  async close(): Promise<void> {
    this.#cancelCheck?.();
    const last = this.#lock.acquire('exclusive', neverAborts);
    this.#stopping.abort(new LancegateError('SlowDown', 'the service is stopping'));
    (await last)();
    await Promise.all([this.#pruning, ...this.#builds]);
  }

  get #nowMs(): number {
    return this.#deps.clock.nowMs();
  }

  get #mayPrune(): boolean {
    return this.#pruning === undefined;
  }

  async #onBranches(main: BranchRef, work: (target: BranchRef) => Promise<unknown>): Promise<void> {
    const release = await this.#lock.acquire('exclusive', this.#stopping.signal);
    try {
      await this.#pruning;
      const branches = (await this.#deps.actions.branchesOf(main)) ?? [];
      // A branch may be deleted while the others are looked after.
      for (const branch of branches)
        await work({ ...main, branch }).catch((error: unknown) => {
          if (!(error instanceof LancegateError) || error.kind !== 'TableBranchNotFound') throw error;
        });
    } finally {
      release();
    }
  }

  #watch(target: BranchRef): BranchWatch {
    const key = keyOf(target);
    const watch = this.#watched.get(key) ?? new BranchWatch(target, this.#deps.policy);
    this.#watched.delete(key);
    this.#watched.set(key, watch);
    const [oldest] = this.#watched.keys();
    // If more branches are written to, those written to longest ago are not maintained.
    if (this.#watched.size > 4_096 && oldest !== undefined) this.#watched.delete(oldest);
    return watch;
  }

  /** Quiet branches and versions that grow old are noticed by looking now and then, for as long as there are any. */
  #checkLater(): void {
    if (this.#cancelCheck !== undefined || this.#stopping.signal.aborted) return;
    this.#cancelCheck = this.#deps.clock.schedule(1_000, () => {
      this.#cancelCheck = undefined;
      // A branch without commits is forgotten some time after its last version could be removed.
      const longMs = 2 * this.#deps.policy.retentionMs + quietMs;
      for (const [key, watch] of this.#watched) {
        const isQuiet = watch.ages.quietForMs(this.#nowMs) > longMs;
        if (isQuiet && !watch.isDue(this.#nowMs, true)) this.#watched.delete(key);
      }
      if (this.#watched.size > 0) this.#checkLater();
      void this.#run();
    });
  }

  /** Runs jobs until no branch is due; a branch that becomes due during a job is seen too. Never rejects. */
  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    for (let next = this.#mostUrgent(); next !== undefined; next = this.#mostUrgent()) await this.#attend(next);
    this.#isRunning = false;
  }

  #mostUrgent(): BranchWatch | undefined {
    if (this.#stopping.signal.aborted) return undefined;
    const due = [...this.#watched.values()].filter((watch) => watch.isDue(this.#nowMs, this.#mayPrune));
    return due.sort((a, b) => b.commits - a.commits)[0];
  }

  async #attend(watch: BranchWatch): Promise<void> {
    const release = await this.#lock.acquire('exclusive', neverAborts);
    try {
      if (this.#stopping.signal.aborted) return;
      const plan = await this.#plan(watch);
      if (plan?.job === 'prune') this.#pruneConcurrently(watch, plan);
      else if (plan?.job === 'index') this.#buildConcurrently(watch, plan);
      else if (plan !== undefined) await this.#carryOut(watch, plan);
    } finally {
      release();
    }
  }

  /** Never rejects. */
  async #plan(watch: BranchWatch): Promise<Plan | undefined> {
    const { commits } = watch;
    try {
      const found = await this.#deps.actions.inspect(watch.target);
      if (found === undefined) {
        this.#watched.delete(keyOf(watch.target));
        return undefined;
      }
      return watch.plan(found, commits, this.#nowMs, this.#mayPrune);
    } catch (error) {
      this.#log.failed(watch.target, 'compact', error, watch.failed('look', this.#nowMs));
      return undefined;
    }
  }

  /** Never rejects. */
  async #carryOut(watch: BranchWatch, plan: Plan): Promise<void> {
    try {
      await this.#jobs.carryOut(watch, plan);
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#log.failed(watch.target, plan.job, error, watch.failed(plan.job, this.#nowMs));
    }
  }

  /** A build takes up to minutes, in a process of its own, in which maintenance has one at a time. */
  #buildConcurrently(watch: BranchWatch, plan: Plan): void {
    watch.begins(plan.job);
    const build = this.#carryOut(watch, plan).then(() => {
      this.#builds.delete(build);
    });
    this.#builds.add(build);
  }

  /** Pruning takes seconds where many versions are kept. The next check sees what becomes due in that time. */
  #pruneConcurrently(watch: BranchWatch, plan: Plan): void {
    this.#pruning = this.#carryOut(watch, plan).then(() => {
      this.#pruning = undefined;
    });
  }
}
