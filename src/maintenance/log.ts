import { showTable } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { BranchRef, JobReport } from './report.ts';

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

  /** For an index that was built before the process began. */
  indexTooLarge({ table, branch }: BranchRef, column: string): void {
    this.#logger.warn({ table: showTable(table), branch: branch ?? 'main', column }, indexTooLarge);
  }

  failed({ table, branch }: BranchRef, job: JobReport['job'], error: unknown, retryAfterMs?: number): void {
    this.#metrics.maintenanceFinished({ job, outcome: 'failed' }, { durationMs: 0, lockedMs: 0 });
    const fields = { table: showTable(table), branch: branch ?? 'main', job, retryAfterMs, error };
    this.#logger.warn(fields, 'maintenance of a table failed; no row is affected');
  }
}
