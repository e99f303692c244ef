/**
 * Keeps tables fast by itself (P8): watches what commits cost, and tidies the branch that loses most, one at a time for the
 * whole process. What it knows is in memory only: after a start a table is looked after from its first commit on.
 *
 * A job that fails is tried again later, each time after twice as long. Closing waits for the job under way: the engine
 * cannot be told to stop, and what it leaves when the process ends is what a crash leaves.
 */
import type { Schema } from '../arrow/schema.ts';
import type { Dataset, Layout, VersionFacts } from '../engine/port.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableId } from '../kernel/ids.ts';
import { Turns } from '../kernel/turns.ts';
import type { Commit, CommitObserver } from '../table/commit-observer.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { BranchHistory, type Cost } from './branch-history.ts';
import type { BranchRef, JobReport, OptimizeReport } from './job.ts';
import {
  columnsToIndex,
  correctedFactor,
  guessCost,
  type OptimizeReason,
  reasonToOptimize,
  type UpkeepLimits,
} from './policy.ts';
import type { Upkeep } from './upkeep.ts';

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

interface Watched {
  readonly target: BranchRef;
  readonly history: BranchHistory;
  /** What a tidying would cost now; undefined until the branch was looked at. */
  cost: Cost | undefined;
  /** Measured over guessed, when it was last tidied. */
  heldFactor: number;
  tailMs: number | undefined;
  restUntilMs: number;
  failures: number;
}

/** The second merge on a column asks for its index. */
const commitsToLook = 2;
const checkEveryMs = 1_000;
/** Beyond it, the branches written to longest ago are left as they are. */
const maxWatched = 4_096;
const firstRetryMs = 1_000;
const longestRetryMs = 300_000;

export class Maintenance implements CommitObserver {
  readonly #parts: MaintenanceParts;
  readonly #watched = new Map<string, Watched>();
  /** Jobs take turns: two at once would leave a machine of two cores to none of the writers. */
  readonly #jobs = new Turns(Number.POSITIVE_INFINITY);
  readonly #stopping = new AbortController();
  #cancelCheck: (() => void) | undefined;
  #isRunning = false;

  constructor(parts: MaintenanceParts) {
    this.#parts = parts;
  }

  committed(commit: Commit): void {
    if (!this.#parts.limits.isAutomatic || this.#stopping.signal.aborted) return;
    const watched = this.#watch(commit);
    watched.history.committed(commit, this.#parts.clock.nowMs());
    this.#checkLater();
    if (this.#isDue(watched)) void this.#run();
  }

  /**
   * Tidies main and all branches now, whatever the measurements say, and builds the indexes that merges seen so far ask for.
   * Resolves to what was done; throws what the engine throws.
   */
  async maintainByHand(main: BranchRef): Promise<readonly JobReport[]> {
    const leave = await this.#jobs.take('alone', this.#stopping.signal);
    try {
      const branches = await this.#parts.upkeep.inspect(main, (dataset) => dataset.listBranches());
      const reports: JobReport[] = [];
      for (const branch of [undefined, ...(branches ?? []).map(({ name }) => name)]) {
        reports.push(...(await this.#maintainBranch({ ...main, branch })));
      }
      return reports;
    } finally {
      leave();
    }
  }

  /** Begins nothing new, and resolves when the job under way has ended. */
  async close(): Promise<void> {
    this.#cancelCheck?.();
    const last = this.#jobs.take('alone', new AbortController().signal);
    this.#stopping.abort(new LancegateError('SlowDown', 'the service is stopping'));
    (await last)();
  }

  #watch({ table, tableId, branch, location }: Commit): Watched {
    const key = keyOf(tableId, branch);
    const watched = this.#watched.get(key) ?? {
      target: { table, tableId, branch, location },
      history: new BranchHistory(this.#parts.limits.retentionMs),
      cost: undefined,
      heldFactor: 1,
      tailMs: undefined,
      restUntilMs: 0,
      failures: 0,
    };
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

  /** By then all that can be done for them is done. */
  #forgetQuiet(): void {
    const { clock, limits } = this.#parts;
    const longMs = 2 * limits.retentionMs + 60_000;
    for (const [key, { history }] of this.#watched) {
      if (history.quietForMs(clock.nowMs()) > longMs) this.#watched.delete(key);
    }
  }

  /** Until nothing is due; what comes due meanwhile is seen too. Never rejects. */
  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    for (let next = this.#mostUrgent(); next !== undefined; next = this.#mostUrgent()) await this.#attend(next);
    this.#isRunning = false;
  }

  #mostUrgent(): Watched | undefined {
    if (this.#stopping.signal.aborted) return undefined;
    const due = [...this.#watched.values()].filter((watched) => this.#isDue(watched));
    return due.sort((a, b) => b.history.lossMs - a.history.lossMs)[0];
  }

  #isDue(watched: Watched): boolean {
    const nowMs = this.#parts.clock.nowMs();
    if (nowMs < watched.restUntilMs) return false;
    if (watched.cost === undefined)
      return watched.history.commitsSinceOptimize >= commitsToLook || this.#hasOldVersions(watched);
    return this.#reason(watched, watched.cost) !== undefined;
  }

  #hasOldVersions({ history }: Watched): boolean {
    return history.prunableVersions(this.#parts.clock.nowMs()) > 0;
  }

  #reason({ history }: Watched, cost: Cost): OptimizeReason | undefined {
    const nowMs = this.#parts.clock.nowMs();
    const facts = {
      commitsSinceOptimize: history.commitsSinceOptimize,
      lossMs: history.lossMs,
      quietForMs: history.quietForMs(nowMs),
      prunableVersions: history.prunableVersions(nowMs),
    };
    return reasonToOptimize(facts, cost, this.#parts.limits);
  }

  async #attend(watched: Watched): Promise<void> {
    const { clock } = this.#parts;
    const leave = await this.#jobs.take('alone', new AbortController().signal);
    const startMs = performance.now();
    try {
      if (this.#stopping.signal.aborted) return;
      await this.#look(watched);
      watched.failures = 0;
      // Half of the time at most goes into one branch.
      watched.restUntilMs = Math.max(watched.restUntilMs, clock.nowMs() + performance.now() - startMs);
    } catch (error) {
      this.#failed(watched, error);
    } finally {
      leave();
    }
  }

  async #look(watched: Watched): Promise<void> {
    const found = await this.#parts.upkeep.inspect(watched.target, layoutAndSchema);
    if (found === undefined) {
      this.#watched.delete(keyOf(watched.target.tableId, watched.target.branch));
      return;
    }
    const { clock } = this.#parts;
    const { target, history } = watched;
    for (const column of this.#columnsToIndex(target, history, found)) await this.#buildIndex(target, column);
    const guess = guessCost(found.layout, history.commitsSinceOptimize);
    watched.cost = { heldMs: guess.heldMs * watched.heldFactor, tailMs: watched.tailMs ?? guess.tailMs };
    const reason = this.#reason(watched, watched.cost);
    if (reason === undefined) return;
    const report = await this.#optimize(target, history, reason, history.supersededBeforeMs(clock.nowMs()) ?? 0);
    if (report === undefined) return;
    watched.heldFactor = correctedFactor(watched.heldFactor, report.heldMs / guess.heldMs);
    watched.tailMs = report.durationMs - report.heldMs;
    watched.cost = undefined;
  }

  async #optimize(
    target: BranchRef,
    history: BranchHistory | undefined,
    reason: OptimizeReason,
    pruneBeforeMs: number,
  ): Promise<OptimizeReport | undefined> {
    const { upkeep, clock } = this.#parts;
    const onRewritten = (): void => history?.rewritten(history.commitsSinceOptimize, clock.nowMs());
    const report = await upkeep.optimize({ target, reason, pruneBeforeMs, onRewritten });
    if (report === undefined) return undefined;
    if (pruneBeforeMs > 0) history?.pruned(pruneBeforeMs);
    this.#tell(target, report);
    return report;
  }

  async #buildIndex(target: BranchRef, column: string): Promise<JobReport | undefined> {
    const report = await this.#parts.upkeep.buildIndex(target, column);
    if (report !== undefined) this.#tell(target, report);
    return report;
  }

  async #maintainBranch(target: BranchRef): Promise<readonly JobReport[]> {
    const { upkeep, clock, limits } = this.#parts;
    const history = this.#watched.get(keyOf(target.tableId, target.branch))?.history;
    const found = await upkeep.inspect(target, async (dataset) => ({
      ...(await layoutAndSchema(dataset)),
      versions: await dataset.versions(),
    }));
    if (found === undefined) return [];
    const reports = [];
    for (const column of this.#columnsToIndex(target, history, found)) {
      reports.push(await this.#buildIndex(target, column));
    }
    const keptFromMs = clock.nowMs() - limits.retentionMs;
    reports.push(await this.#optimize(target, history, 'by hand', newestUntil(found.versions, keptFromMs)));
    return reports.filter((report) => report !== undefined);
  }

  #columnsToIndex(
    { branch }: BranchRef,
    history: BranchHistory | undefined,
    { layout, schema }: { readonly layout: Layout; readonly schema: Schema },
  ): readonly string[] {
    if (branch !== undefined || history === undefined) return [];
    return columnsToIndex(history.mergesOn, layout, schema, this.#parts.limits);
  }

  #tell({ table, branch }: BranchRef, report: JobReport): void {
    const { logger, metrics } = this.#parts;
    const { job, durationMs } = report;
    const heldMs = report.job === 'optimize' ? report.heldMs : 0;
    metrics.maintenanceFinished({ job, outcome: 'done' }, { durationMs, heldMs });
    const fields = { ...report, table: showTable(table), branch: branch ?? 'main' };
    if (report.job === 'optimize' && report.isHeldByTag) logger.warn(fields, 'a tag keeps old versions of a table');
    logger.info(fields, report.job === 'optimize' ? 'tidied a table' : 'built an index');
  }

  #failed(watched: Watched, error: unknown): void {
    const { clock, logger, metrics } = this.#parts;
    const { table, branch } = watched.target;
    watched.failures += 1;
    const retryAfterMs = Math.min(longestRetryMs, firstRetryMs * 2 ** (watched.failures - 1));
    watched.restUntilMs = clock.nowMs() + retryAfterMs;
    metrics.maintenanceFinished({ job: 'optimize', outcome: 'failed' }, { durationMs: 0, heldMs: 0 });
    const fields = { table: showTable(table), branch: branch ?? 'main', retryAfterMs, error };
    logger.warn(fields, 'looking after a table failed; no row is affected');
  }
}

const keyOf = (tableId: TableId, branch: BranchName | undefined): string => JSON.stringify([tableId, branch ?? null]);

const layoutAndSchema = async (dataset: Dataset): Promise<{ readonly layout: Layout; readonly schema: Schema }> => ({
  layout: await dataset.layout(),
  schema: await dataset.schema(),
});

/** When the version that was the newest at that time was committed; 0 where none was. What is older is superseded. */
const newestUntil = (versions: readonly VersionFacts[], atMs: number): number =>
  versions.findLast(({ committedAtMs }) => committedAtMs <= atMs)?.committedAtMs ?? 0;
