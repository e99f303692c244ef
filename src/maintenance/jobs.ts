import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { VersionRange } from '../engine/port/upkeep.ts';
import type { Clock } from '../kernel/clock.ts';
import { isStorageFull } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Compaction, MaintenanceActions } from './act/maintenance-actions.ts';
import type { BranchWatch, WatchPolicy } from './branch-watch.ts';
import { columnsToIndex, type Inspection, isConcurrent, isThin, type Plan, plainColumns } from './decide/policy.ts';
import { afterFull, afterIndexing, afterTiered } from './observe/debt.ts';
import type { BranchRef, CompactionReport, IndexReport, JobReport, PruneReport } from './report.ts';

const indexTooLarge = 'an index is larger than --engine-index-cache, which makes merges slow';

const messages: Readonly<Record<JobReport['job'], string>> = {
  compact: 'compacted a table',
  index: 'built an index',
  prune: 'removed old versions of a table',
};

/** What ran, why and what it cost, in the log and the metrics. */
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
    if (report.job !== 'prune' && report.isIndexTooLarge) this.#logger.warn(fields, indexTooLarge);
    this.#logger.info(fields, messages[job]);
  }

  /** Logs that an index is too large which was built before the process began. */
  indexTooLarge({ table, branch }: BranchRef, column: string): void {
    this.#logger.warn({ table: showTable(table), branch: branch ?? 'main', column }, indexTooLarge);
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
  /** Ends index builds. */
  readonly stopping: AbortSignal;
}

/** Runs jobs, and records what they did: in the log and in the debt of the branch. */
export class MaintenanceJobs {
  readonly #deps: JobDeps;

  constructor(deps: JobDeps) {
    this.#deps = deps;
  }

  /** Indexes that were built before this process began: those that it builds are in memory. */
  async warmIndexes({ target, mergesOn }: BranchWatch, { layout }: Inspection): Promise<void> {
    const { actions, log } = this.#deps;
    for (const column of plainColumns(layout.indexes).filter((each) => mergesOn.has(each))) {
      if (!(await actions.warmIndex(target, column))) log.indexTooLarge(target, column);
    }
  }

  async carryOut(watch: BranchWatch, plan: Plan): Promise<void> {
    const beganAtMs = this.#nowMs;
    const startMs = performance.now();
    switch (plan.job) {
      case 'compact':
        await this.pruneForSpace(watch.target);
        await this.#compact(watch, plan);
        break;
      case 'index':
        for (const column of plan.columns) await this.#buildIndex(watch, column, plan.reason);
        break;
      case 'refresh':
        requireBuilt(await this.#refresh(watch, plan.indexes, plan.reason));
        break;
      case 'prune':
        await this.#prune(watch.target, 'old versions');
        watch.ages.removed(beganAtMs);
    }
    watch.succeeded(plan, performance.now() - startMs, this.#nowMs);
  }

  /**
   * Whatever the debt of the branch is. If space is short, it removes old versions first, and reports that also if the rest
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

  /** Also versions whose retention has not ended. */
  async removeVersions(target: BranchRef, ranges: readonly VersionRange[]): Promise<PruneReport | undefined> {
    const report = await this.#deps.actions.removeVersions(target, ranges, this.#nowMs);
    this.#logPruned(target, report);
    return report;
  }

  /** Versions go first: those that the compaction replaces were the newest until then. */
  async #maintainFully(watch: BranchWatch): Promise<readonly JobReport[]> {
    const { actions, policy } = this.#deps;
    const { target } = watch;
    const pruned = await this.#prune(target, 'by hand');
    const found = await actions.inspect(target);
    if (found === undefined || pruned === undefined) return [];
    const columns = target.branch === undefined ? columnsToIndex(watch.mergesOn, found, policy) : [];
    const reports: JobReport[] = [];
    for (const column of columns) {
      const built = await this.#buildIndex(watch, column, 'merges on the column');
      if (built !== undefined) reports.push(built);
    }
    const compacted = await this.#compact(watch, { reason: 'by hand', extent: 'full' });
    if (compacted === undefined) return reports;
    const after = await actions.inspect(target);
    const stale = after?.layout.indexes.filter(({ isPlain, unindexedRows }) => !isPlain && unindexedRows > 0) ?? [];
    const due = stale.flatMap(({ spec }) => spec ?? []);
    const refreshed = await this.#refresh(watch, due, 'by hand');
    reports.push(...refreshed);
    for (const { refusal } of refreshed) if (refusal !== undefined) this.#deps.log.failed(target, 'index', refusal);
    const { removedVersions, removedBytes, isHeldByTag } = pruned;
    return [...reports, { ...compacted, removedVersions, removedBytes, isHeldByTag }];
  }

  async #compact(watch: BranchWatch, compaction: Compaction): Promise<CompactionReport | undefined> {
    const { target, debt: before } = watch;
    const report = await this.#deps.actions.compact(target, compaction);
    if (report === undefined) return undefined;
    const { debt } = watch;
    const tier = compaction.fragments?.length;
    const left = tier === undefined ? afterFull(debt, before) : afterTiered(debt, before, tier);
    const versions = (report.removedFragments > 0 ? 1 : 0) + report.indexed.length;
    watch.maintained(report.indexed.length > 0 ? afterIndexing(left, before) : left, versions, this.#nowMs);
    this.#deps.log.done(target, report);
    return report;
  }

  async #buildIndex(
    watch: BranchWatch,
    column: string,
    reason: IndexReport['reason'],
  ): Promise<IndexReport | undefined> {
    const { target, debt: before } = watch;
    const report = await this.#deps.actions.buildIndex(target, column, reason);
    if (report === undefined) return undefined;
    watch.maintained(afterIndexing(watch.debt, before), 1, this.#nowMs);
    this.#deps.log.done(target, report);
    return report;
  }

  /**
   * Where much is deleted, all is compacted first: what is compacted afterwards is in no index. An index that the rows do not go with,
   * such as one of more clusters than there are vectors, stays as it is and is no reason to leave the others.
   */
  async #refresh(
    watch: BranchWatch,
    due: readonly IndexSpec[],
    reason: IndexReport['reason'],
  ): Promise<readonly IndexReport[]> {
    const { actions, log, stopping } = this.#deps;
    const { target } = watch;
    const found = await actions.inspect(target);
    if (found === undefined) return [];
    const isCompacted = isThin(found.layout) && isConcurrent(found.layout);
    if (isCompacted) await this.#compact(watch, { reason: 'before the index', extent: 'full' });
    const all = found.layout.indexes.flatMap(({ spec, isPlain }) => (isPlain || spec === undefined ? [] : [spec]));
    const names = new Set(due.map(({ name }) => name));
    const reports: IndexReport[] = [];
    for (const spec of all.filter(({ name }) => isCompacted || names.has(name))) {
      const report = await actions.refreshIndex(target, spec, reason, stopping);
      if (report === undefined) continue;
      reports.push(report);
      if (report.refusal !== undefined) continue;
      watch.maintained(watch.debt, 1, this.#nowMs);
      log.done(target, report);
    }
    return reports;
  }

  async #prune(target: BranchRef, reason: PruneReport['reason']): Promise<PruneReport | undefined> {
    const report = await this.#deps.actions.prune(target, reason, this.#retainedFromMs);
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

/** A plan that left an index as it is has failed, so that it is not tried again at once. */
function requireBuilt(reports: readonly IndexReport[]): void {
  for (const { refusal } of reports) if (refusal !== undefined) throw refusal;
}
