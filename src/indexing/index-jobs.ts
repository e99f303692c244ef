/**
 * Index builds are jobs: they run in a process of their own, without any lock, however long that takes; then committed as any write of
 * the branch. Which jobs there are is known in memory only. A job that the end of the service cuts short has written nothing, and
 * what it has built is removed by the next start.
 */
import type { KeyedRequest, TableRecord } from '../catalog/port.ts';
import { writerMoved } from '../catalog/refusals.ts';
import type { Snapshot } from '../engine/port/dataset.ts';
import type { Datasets } from '../engine/port/engine.ts';
import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { IndexBuildScope } from '../engine/port/reader-work.ts';
import type { PreparedCommit } from '../engine/port/upkeep.ts';
import { type Clock, type NewId, newTransactionId } from '../kernel/clock.ts';
import { isOutcomeUnknown, LancegateError, queueIsFull } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableRef, type TransactionId } from '../kernel/ids.ts';
import { principalKey, type RequestScope } from '../kernel/request-scope.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import { markBranch, type RecoveryMarks } from '../table/recovery-marks.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { VersionPins } from '../table/version-pins.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TableWriter } from '../write/table-writer.ts';
import type { WriteCounts } from '../write/write.ts';
import { columnChanged, type IndexedBranch, type IndexRequest } from './index-kind.ts';

interface IndexJobsDeps {
  readonly engine: Datasets;
  readonly access: TableAccess;
  readonly datasets: OpenDatasets;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
  readonly writer: TableWriter;
  readonly pins: VersionPins;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly logger: Logger;
}

/** The order was checked against the table. */
interface IndexOrder {
  readonly table: TableRecord;
  readonly branch: BranchName | undefined;
  readonly spec: IndexSpec;
  readonly isReplacing: boolean;
  readonly scope: Pick<RequestScope, 'requestId' | 'principal'>;
  readonly keyed: KeyedRequest | undefined;
}

type JobState = 'IN_PROGRESS' | 'DONE' | 'FAILED' | 'CANCELLED';

export interface IndexJob extends IndexOrder {
  readonly id: string;
  readonly createdAtMs: number;
  readonly transactionId: TransactionId;
  readonly state: JobState;
  /** A job that failed has it. */
  readonly failure: LancegateError | undefined;
  /** Settles as the job does. */
  readonly ended: Promise<WriteCounts>;
}

interface OpenJob extends IndexJob {
  state: JobState;
  failure: LancegateError | undefined;
  /** Aborts the job with the error that it then fails with. */
  readonly ending: AbortController;
}

/** Writers wait so long for an index that cannot be built beside them. */
const mostLockedMs = 5_000;

export class IndexJobs {
  readonly #deps: IndexJobsDeps;
  /** Each stands under its id, the oldest first. */
  readonly #jobs = new Map<string, OpenJob>();

  constructor(deps: IndexJobsDeps) {
    this.#deps = deps;
  }

  /** `SlowDown` if too many run or wait. */
  start(order: IndexOrder): IndexJob {
    const { newId, clock } = this.#deps;
    // Each holds a version of its table.
    if (this.#running.length >= 64) throw queueIsFull('index builds');
    this.#forgetOldest();
    const { promise: ended, resolve, reject } = Promise.withResolvers<WriteCounts>();
    ended.catch(() => undefined); // each wait on it handles it
    const job: OpenJob = {
      ...order,
      id: newId(),
      createdAtMs: clock.nowMs(),
      transactionId: newTransactionId(newId),
      state: 'IN_PROGRESS',
      failure: undefined,
      ended,
      ending: new AbortController(),
    };
    this.#jobs.set(job.id, job);
    void this.#run(job).then(resolve, reject);
    return job;
  }

  find(id: string): IndexJob | undefined {
    return this.#jobs.get(id);
  }

  /** The newest is first. */
  list(): readonly IndexJob[] {
    return [...this.#jobs.values()].toReversed();
  }

  /** Resolves when the job has ended: cancelled, or as it did before. */
  async cancel({ id }: Pick<IndexJob, 'id'>): Promise<void> {
    const job = this.#jobs.get(id);
    if (job !== undefined)
      await this.#end(job, new LancegateError('JobCancelled', 'the job was cancelled; nothing was written'));
  }

  /** Ends those of a table that another process writes to from now on, which can build them again. */
  async handOver(table: TableRef): Promise<void> {
    await Promise.all(this.#runningOn(table).map((job) => this.#end(job, writerMoved(table))));
  }

  isBuilding(table: TableRef): boolean {
    return this.#runningOn(table).length > 0;
  }

  /** Ends all that run. */
  async close(): Promise<void> {
    await Promise.all(
      this.#running.map((job) =>
        this.#end(
          job,
          new LancegateError('SlowDown', 'the service is stopping; nothing was written', { retryAfterSeconds: 5 }),
        ),
      ),
    );
  }

  async #end({ ending, ended }: OpenJob, reason: LancegateError): Promise<void> {
    ending.abort(reason);
    await ended.catch(() => undefined);
  }

  get #running(): readonly OpenJob[] {
    return [...this.#jobs.values()].filter(({ state }) => state === 'IN_PROGRESS');
  }

  #runningOn(table: TableRef): readonly OpenJob[] {
    const name = showTable(table);
    return this.#running.filter((job) => showTable(job.table.ref) === name);
  }

  #forgetOldest(): void {
    for (const [id, { state }] of this.#jobs) {
      // Ended ones count; the oldest of those are forgotten first.
      if (this.#jobs.size < 1_024) return;
      if (state !== 'IN_PROGRESS') this.#jobs.delete(id);
    }
  }

  async #run(job: OpenJob): Promise<WriteCounts> {
    const startMs = performance.now();
    const fields = { jobId: job.id, location: job.table.location, index: job.spec.name, type: job.spec.options.type };
    try {
      const counts = await this.#build(job);
      job.state = 'DONE';
      this.#deps.logger.info({ ...fields, durationMs: performance.now() - startMs }, 'built an index for a client');
      return counts;
    } catch (error) {
      const failure = failureOf(job, error);
      job.state = failure.kind === 'JobCancelled' ? 'CANCELLED' : 'FAILED';
      job.failure = failure;
      this.#deps.logger.info({ ...fields, state: job.state, error }, 'an index was not built; nothing was written');
      throw failure;
    }
  }

  #build(job: OpenJob): Promise<WriteCounts> {
    const { engine, access } = this.#deps;
    const { table, branch } = job;
    return access.onFilesOf(table, async () => {
      await markBranch(this.#deps, table, branch, job.ending.signal);
      const dataset = await engine.open({ location: table.location, branch });
      try {
        return await this.#buildOn(dataset, job);
      } finally {
        dataset.close();
      }
    });
  }

  async #buildOn(dataset: Snapshot & IndexedBranch, job: OpenJob): Promise<WriteCounts> {
    const { table, branch, spec, isReplacing, transactionId, keyed } = job;
    const { signal } = job.ending;
    const layout = await dataset.layout();
    const unpin = this.#deps.pins.pin({ tableId: table.id, branch }, await dataset.version(), layout);
    const principal = principalKey(job.scope.principal);
    const startMs = performance.now();
    try {
      const prepared = await dataset.prepareIndex(spec, { principal, signal });
      const isShort = performance.now() - startMs < mostLockedMs / 2;
      const prepareLocked = isShort ? () => this.#prepareInTime(dataset, spec, { principal, signal }) : undefined;
      try {
        const scope = { ...job.scope, signal, remainingMs: () => undefined };
        const common = { table, branch, scope, transactionId, keyed } as const;
        const write: IndexRequest = {
          ...{ ...common, kind: 'index', operation: 'create_index' },
          ...{ spec, isReplacing, dataset, prepared, prepareLocked },
        };
        return await this.#deps.writer.write(write);
      } finally {
        prepared.discard();
      }
    } finally {
      unpin();
    }
  }

  async #prepareInTime(dataset: IndexedBranch, spec: IndexSpec, scope: IndexBuildScope): Promise<PreparedCommit> {
    const late = new AbortController();
    const cancel = this.#deps.clock.schedule(mostLockedMs, () => late.abort(columnChanged(spec)));
    try {
      return await dataset.prepareIndex(spec, { ...scope, signal: AbortSignal.any([scope.signal, late.signal]) });
    } finally {
      cancel();
    }
  }
}

/** Says why a job was ended that wrote nothing. */
function failureOf({ ending: { signal } }: OpenJob, error: unknown): LancegateError {
  const failure =
    error instanceof LancegateError ? error : new LancegateError('Internal', 'an index build failed', { cause: error });
  return signal.aborted && !isOutcomeUnknown(failure) ? (signal.reason as LancegateError) : failure;
}
