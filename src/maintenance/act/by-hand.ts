import type { Clock } from '../../kernel/clock.ts';
import { isStorageFull } from '../../kernel/errors.ts';
import type { UpkeepLimits } from '../decide/policy.ts';
import type { BranchRef, JobReport } from '../job.ts';
import type { JobLog } from '../job-log.ts';
import type { Jobs } from '../jobs.ts';
import type { BranchHistory } from '../observe/branch-history.ts';
import { columnsToIndexNow, inspection } from '../observe/inspection.ts';
import { newestAt, type Upkeep } from './upkeep.ts';

export interface ByHandParts {
  readonly upkeep: Upkeep;
  readonly jobs: Jobs;
  readonly log: JobLog;
  readonly clock: Clock;
  readonly limits: UpkeepLimits & { readonly retentionMs: number };
}

/**
 * Tidies main and all branches, whatever the measurements say, and builds the indexes that merges seen so far ask for. If
 * space is short, it prunes old versions first and reports that also if the rest then fails on a full disk.
 */
export class ByHand {
  readonly #parts: ByHandParts;

  constructor(parts: ByHandParts) {
    this.#parts = parts;
  }

  /** To be called while no other job is under way. Throws what the engine throws. */
  async maintain(
    main: BranchRef,
    historyOf: (target: BranchRef) => BranchHistory | undefined,
  ): Promise<readonly JobReport[]> {
    const branches = await this.#parts.upkeep.inspect(main, (dataset) => dataset.listBranches());
    const reports: JobReport[] = [];
    for (const branch of [undefined, ...(branches ?? []).map(({ name }) => name)]) {
      const target = { ...main, branch };
      reports.push(...(await this.#maintainBranch(target, historyOf(target))));
    }
    return reports;
  }

  async #maintainBranch(target: BranchRef, history: BranchHistory | undefined): Promise<readonly JobReport[]> {
    const { upkeep, jobs, clock, limits } = this.#parts;
    const found = await upkeep.inspect(target, async (dataset) => ({
      ...(await inspection(dataset)),
      versions: await dataset.versions(),
    }));
    if (found === undefined) return [];
    const keptFromMs = clock.nowMs() - limits.retentionMs;
    const pruned = await jobs.prune(target, keptFromMs);
    const reports: (JobReport | undefined)[] = [pruned];
    try {
      for (const column of columnsToIndexNow(target, history, found, limits)) {
        reports.push(await jobs.buildIndex(target, column, 'merges on the column', history));
      }
      const choice = { reason: 'by hand', extent: 'all' } as const;
      const pruneBeforeMs = newestAt(found.versions, keptFromMs);
      reports.push(await jobs.optimize({ target, history, ...choice, pruneBeforeMs }));
    } catch (error) {
      if (pruned === undefined || !isStorageFull(error)) throw error;
      this.#parts.log.failed(target, undefined, error);
    }
    return reports.filter((report) => report !== undefined);
  }
}
