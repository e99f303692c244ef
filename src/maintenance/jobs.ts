import type { Clock } from '../kernel/clock.ts';
import type { Upkeep } from './act/upkeep.ts';
import type { BranchRef, IndexReport, OptimizeJob, OptimizeReport, PruneReport } from './job.ts';
import type { JobLog } from './job-log.ts';
import type { BranchHistory } from './observe/branch-history.ts';

export interface JobsParts {
  readonly upkeep: Upkeep;
  readonly log: JobLog;
  readonly clock: Clock;
}

export type OptimizeTask = Omit<OptimizeJob, 'onRewritten' | 'onOnlyPruning'> & {
  /** undefined where the branch is not watched, as when it has had no commit. */
  readonly history: BranchHistory | undefined;
  /** Called when nothing is left to do but to remove versions, if that comes before the end. */
  readonly onOnlyPruning?: () => void;
};

/** Has jobs done, and says so where that is kept: in the history of the branch and in the log. */
export class Jobs {
  readonly #parts: JobsParts;

  constructor(parts: JobsParts) {
    this.#parts = parts;
  }

  /** undefined where the table is not there any more; throws what the engine throws. */
  async optimize({ history, onOnlyPruning, ...job }: OptimizeTask): Promise<OptimizeReport | undefined> {
    const commits = history?.commitsSinceOptimize ?? 0;
    let isRewritten = false;
    let isTidied = false;
    const tidied = (indexed: readonly string[]): void => {
      if (isTidied) return;
      isTidied = true;
      if (isRewritten) history?.measureAnew();
      else history?.foundTidy(commits);
      if (indexed.length > 0) history?.changed(this.#nowMs);
    };
    const report = await this.#parts.upkeep.optimize({
      ...job,
      onRewritten: (isBeside) => {
        isRewritten = true;
        const meanwhile = isBeside ? (history?.commitsSinceOptimize ?? commits) - commits : 0;
        if (job.extent === 'small') history?.moved(job.fragments?.length ?? 0, this.#nowMs, meanwhile);
        else history?.rewritten(this.#nowMs, meanwhile);
      },
      onOnlyPruning: (indexed) => {
        tidied(indexed);
        onOnlyPruning?.();
      },
    });
    if (report === undefined) return undefined;
    tidied(report.indexed);
    if (job.pruneBeforeMs > 0) history?.pruned(job.pruneBeforeMs);
    this.#parts.log.done(job.target, report);
    return report;
  }

  /** As `Upkeep.prune`. */
  async prune(target: BranchRef, supersededBeforeMs: number): Promise<PruneReport | undefined> {
    const report = await this.#parts.upkeep.prune(target, supersededBeforeMs);
    if (report === undefined || report.removedVersions === 0) return undefined;
    this.#parts.log.done(target, report);
    return report;
  }

  async buildIndex(
    target: BranchRef,
    column: string,
    reason: IndexReport['reason'],
    history: BranchHistory | undefined,
  ): Promise<IndexReport | undefined> {
    const report = await this.#parts.upkeep.buildIndex(target, column, reason);
    if (report === undefined) return undefined;
    history?.changed(this.#nowMs);
    this.#parts.log.done(target, report);
    return report;
  }

  get #nowMs(): number {
    return this.#parts.clock.nowMs();
  }
}
