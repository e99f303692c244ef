import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { VersionRange } from '../engine/port/upkeep.ts';
import type { Clock } from '../kernel/clock.ts';
import { isStorageFull, notTheFirstStepIf } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { MaintenanceActions } from './act/maintenance-actions.ts';
import type { BranchWatch, WatchPolicy } from './branch-watch.ts';
import { type Compaction, type IndexReason, lateIndexes, type Plan, specsOf } from './plan.ts';
import type { BranchRef, CompactionReport, IndexReport, JobReport, PruneReport } from './report.ts';

const messages: Readonly<Record<JobReport['job'], string>> = {
  compact: 'compacted a table',
  index: 'built an index',
  prune: 'removed old versions of a table',
};

/** Tells the log and the metrics what ran, why and what it cost. */
export class MaintenanceLog {
  readonly #logger: Logger;
  readonly #metrics: Metrics;

  constructor({ logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics }) {
    this.#logger = logger;
    this.#metrics = metrics;
  }

  done({ table, branch }: BranchRef, report: JobReport): void {
    const { job, durationMs } = report;
    const lockedMs = report.job === 'compact' ? report.lockedMs : 0;
    this.#metrics.maintenanceFinished({ job, outcome: 'done' }, { durationMs, lockedMs });
    const fields = { ...report, table: showTable(table), branch: branch ?? 'main' };
    if (report.job !== 'index' && report.isHeldByTag) this.#logger.warn(fields, 'a tag keeps old versions of a table');
    if (report.job === 'prune' && report.history?.cutToMs !== undefined)
      this.#logger.warn(
        { ...fields, undoReachesTo: new Date(report.history.cutToMs).toISOString() },
        'the history of a table was cut for want of room',
      );
    this.#logger.info(fields, messages[job]);
  }

  failed({ table, branch }: BranchRef, job: JobReport['job'], error: unknown, retryAfterMs?: number): void {
    this.#metrics.maintenanceFinished({ job, outcome: 'failed' }, { durationMs: 0, lockedMs: 0 });
    const fields = { table: showTable(table), branch: branch ?? 'main', job, retryAfterMs, error };
    this.#logger.warn(fields, 'maintenance of a table failed; no row is affected');
  }
}

interface JobDeps {
  readonly actions: MaintenanceActions;
  readonly log: MaintenanceLog;
  readonly clock: Clock;
  readonly policy: WatchPolicy;
  /** Ends index builds and compactions. */
  readonly stopping: AbortSignal;
}

/** Runs jobs, and records what they did: in the log and in what is known of the branch. */
export class MaintenanceJobs {
  readonly #deps: JobDeps;

  constructor(deps: JobDeps) {
    this.#deps = deps;
  }

  async carryOut(watch: BranchWatch, plan: Plan): Promise<void> {
    const beganAtMs = this.#nowMs;
    const startMs = performance.now();
    if (!(await this.#isDone(watch, plan))) {
      watch.failed(plan.job, this.#nowMs);
      return;
    }
    if (plan.job === 'prune') watch.ages.removed(beganAtMs);
    watch.succeeded(plan.job, performance.now() - startMs, this.#nowMs);
  }

  /** Answers false if there was nothing to do, and will be nothing when it is tried again at once. */
  async #isDone(watch: BranchWatch, plan: Plan): Promise<boolean> {
    switch (plan.job) {
      case 'compact':
        await this.pruneForSpace(watch.target);
        return (await this.#compact(watch, plan))?.isMade === true;
      case 'index':
        // A plan that left an index as it is has failed, so that it is not tried again at once.
        for (const { refusal } of await this.#buildIndexes(watch, plan.indexes, plan.reason))
          if (refusal !== undefined) throw refusal;
        return true;
      case 'prune':
        await this.prune(watch.target, 'old versions');
        return true;
    }
  }

  /**
   * Does whatever the branch needs. If space is short, it removes old versions first, and reports that also if the rest
   * then fails on a full disk.
   */
  async maintainNow(watch: BranchWatch): Promise<readonly JobReport[]> {
    const { target } = watch;
    const pruned = await this.pruneForSpace(target);
    try {
      const rest = await this.#maintainFully(watch);
      return pruned === undefined ? rest : [pruned, ...rest];
    } catch (error) {
      if (pruned === undefined || !isStorageFull(error)) throw error;
      this.#deps.log.failed(target, 'compact', error);
      return [pruned];
    }
  }

  /** Removes old versions if the disk has too little space to compact the branch. */
  async pruneForSpace(target: BranchRef): Promise<PruneReport | undefined> {
    const report = await this.#deps.actions.pruneForSpace(target, this.#retainedFromMs);
    this.#logPruned(target, report);
    return report?.removedVersions === 0 ? undefined : report;
  }

  /** It also removes versions whose retention has not ended. */
  removeVersions(target: BranchRef, ranges: readonly VersionRange[]): Promise<PruneReport | undefined> {
    return this.prune(target, 'by hand', this.#nowMs, ranges);
  }

  /** Versions go first: those that the compaction replaces were the newest until then. */
  async #maintainFully(watch: BranchWatch): Promise<readonly JobReport[]> {
    const { actions, log } = this.#deps;
    const { target } = watch;
    const pruned = await this.prune(target, 'by hand');
    if (pruned === undefined) return [];
    const compaction = { job: 'compact', reason: 'by hand', fragments: 'all' } as const;
    const compacted = await this.#compact(watch, compaction).catch(notTheFirstStepIf(pruned.removedVersions > 0));
    const found = await actions.inspect(target);
    if (compacted === undefined || found === undefined) return [];
    const hasDone = compacted.isMade || pruned.removedVersions > 0;
    const wanted = await this.#buildIndexes(watch, watch.toIndex(found), 'merges on the column').catch(
      notTheFirstStepIf(hasDone),
    );
    const late = await this.#buildIndexes(watch, specsOf(lateIndexes(found.layout)), 'by hand').catch(
      notTheFirstStepIf(hasDone || wanted.length > 0),
    );
    const indexed = [...wanted, ...late];
    for (const { refusal } of indexed) if (refusal !== undefined) log.failed(target, 'index', refusal);
    const columns = indexed.flatMap(({ column, refusal }) => (refusal === undefined ? column : []));
    const { removedVersions, removedBytes, isHeldByTag } = pruned;
    return [...indexed, { ...compacted, indexed: columns, removedVersions, removedBytes, isHeldByTag }];
  }

  async #compact(watch: BranchWatch, compaction: Compaction): Promise<CompactionReport | undefined> {
    const { target, commits } = watch;
    const { actions, stopping } = this.#deps;
    const report = await actions.compact(target, compaction, stopping);
    if (report === undefined) return undefined;
    if (report.isMade) watch.maintained(commits, this.#nowMs);
    if (report.isMade || compaction.reason === 'by hand') this.#deps.log.done(target, report);
    return report;
  }

  /**
   * An index that the rows do not go with, such as one of more clusters than there are vectors, stays as it is and is no reason to
   * leave the others.
   */
  async #buildIndexes(
    watch: BranchWatch,
    indexes: readonly IndexSpec[],
    reason: IndexReason,
  ): Promise<readonly IndexReport[]> {
    const { actions, log, stopping } = this.#deps;
    const { target } = watch;
    const reports: IndexReport[] = [];
    for (const spec of indexes) {
      const report = await actions
        .buildIndex(target, spec, reason, stopping)
        .catch(notTheFirstStepIf(reports.length > 0));
      if (report === undefined) continue;
      reports.push(report);
      if (report.refusal !== undefined) continue;
      watch.maintained(0, this.#nowMs);
      log.done(target, report);
    }
    return reports;
  }

  async prune(
    target: BranchRef,
    reason: PruneReport['reason'],
    supersededBeforeMs = this.#retainedFromMs,
    within?: readonly VersionRange[],
  ): Promise<PruneReport | undefined> {
    const report = await this.#deps.actions.prune(target, reason, supersededBeforeMs, within);
    this.#logPruned(target, report);
    return report;
  }

  #logPruned(target: BranchRef, report: PruneReport | undefined): void {
    if (report === undefined || (report.removedVersions === 0 && !report.isHeldByTag)) return;
    this.#deps.log.done(target, report);
  }

  get #nowMs(): number {
    return this.#deps.clock.nowMs();
  }

  /** Versions that were superseded before may be removed. */
  get #retainedFromMs(): number {
    return this.#nowMs - this.#deps.policy.retentionMs;
  }
}
