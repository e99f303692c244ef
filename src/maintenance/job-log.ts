import { showTable } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { BranchRef, JobReport } from './job.ts';

const indexTooLarge = 'an index is larger than --engine-index-cache, which makes merges slow';

const saying: Readonly<Record<JobReport['job'], string>> = {
  optimize: 'tidied a table',
  index: 'built an index',
  prune: 'removed old versions of a table',
};

/** What ran, why and what it cost, in the log and the metrics. */
export class JobLog {
  readonly #logger: Logger;
  readonly #metrics: Metrics;

  constructor({ logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics }) {
    this.#logger = logger;
    this.#metrics = metrics;
  }

  done({ table, branch }: BranchRef, report: JobReport): void {
    const { job, durationMs } = report;
    const heldMs = report.job === 'optimize' ? report.heldMs : 0;
    this.#metrics.maintenanceFinished({ job, outcome: 'done' }, { durationMs, heldMs });
    const fields = { ...report, table: showTable(table), branch: branch ?? 'main' };
    if (report.job === 'optimize' && report.isHeldByTag) {
      this.#logger.warn(fields, 'a tag keeps old versions of a table');
    }
    if (report.job !== 'prune' && report.isIndexTooLarge) this.#logger.warn(fields, indexTooLarge);
    this.#logger.info(fields, saying[report.job]);
  }

  /** One that was there before the process began. */
  indexTooLarge({ table, branch }: BranchRef, column: string): void {
    this.#logger.warn({ table: showTable(table), branch: branch ?? 'main', column }, indexTooLarge);
  }

  failed(
    { table, branch }: BranchRef,
    retryAfterMs: number | undefined,
    error: unknown,
    job: JobReport['job'] = 'optimize',
  ): void {
    this.#metrics.maintenanceFinished({ job, outcome: 'failed' }, { durationMs: 0, heldMs: 0 });
    const fields = { table: showTable(table), branch: branch ?? 'main', retryAfterMs, error };
    this.#logger.warn(fields, 'looking after a table failed; no row is affected');
  }
}
