import type { OpenBranchCatalog, TableCatalog } from '../catalog/port.ts';
import type { TableMaker } from '../create/table-maker.ts';
import type { BranchRecovery, Datasets } from '../engine/port/engine.ts';
import type { Idempotency } from '../idempotency/idempotency.ts';
import type { IndexJobs } from '../indexing/index-jobs.ts';
import type { NewId } from '../kernel/clock.ts';
import type { TableRef } from '../kernel/ids.ts';
import type { Release } from '../kernel/read-write-lock.ts';
import { firstOf } from '../kernel/request-scope.ts';
import type { MaintenanceScheduler } from '../maintenance/scheduler.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { RecoveryMarks } from '../table/recovery-marks.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { OwnedWork } from '../table/table-owners.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TableWriter } from '../write/table-writer.ts';
import { recoverTables, takeOverBranches } from './recovery.ts';

interface HandoverDeps {
  readonly catalog: TableCatalog & OpenBranchCatalog;
  readonly engine: BranchRecovery & Datasets;
  readonly maker: TableMaker;
  readonly idempotency: Idempotency;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: RecoveryMarks;
  readonly writer: TableWriter;
  readonly maintenance: MaintenanceScheduler;
  readonly indexJobs: IndexJobs;
  readonly newId: NewId;
  readonly logger: Logger;
}

/** What becomes of the work on a table when its name changes hands. */
export class TableHandover implements OwnedWork {
  readonly #deps: HandoverDeps;

  constructor(deps: HandoverDeps) {
    this.#deps = deps;
  }

  async takeOver(table: TableRef | 'every table'): Promise<void> {
    const { maker, idempotency } = this.#deps;
    if (table === 'every table') {
      await maker.sweep();
      await recoverTables(this.#deps);
      await idempotency.settle();
    } else {
      await maker.sweep(table);
      await takeOverBranches(this.#deps, table);
      await idempotency.settle(table);
    }
  }

  /** What is left of a failed create or drop, or of a commit that may not be durable, is for the next owner. */
  async handOver(table: TableRef, signal: AbortSignal): Promise<'settled' | 'unsettled' | 'busy'> {
    const { catalog, maker, recoveryMarks } = this.#deps;
    if (maker.isMaking(table)) return 'busy';
    // What holds the lock may have committed: without the name it could not be recorded, and its outcome would be
    // unknown (P6).
    const release = await this.#lockLast(table, signal).catch((error: unknown): undefined => {
      if (!signal.aborted) throw error;
    });
    if (release === undefined) return 'busy';
    try {
      if (maker.isMaking(table)) return 'busy';
      const record = await catalog.findTable(table);
      const isClosed = record === undefined || (await recoveryMarks.closeTable(record));
      const { creations, discarded } = await this.#deps.maker.left(table);
      await this.forget(table);
      return isClosed && creations.length === 0 && discarded.length === 0 ? 'settled' : 'unsettled';
    } finally {
      release();
    }
  }

  async #lockLast(table: TableRef, signal: AbortSignal): Promise<Release> {
    await firstOf(this.#deps.indexJobs.handOver(table), signal);
    return this.#deps.locks.lockLast(table, signal);
  }

  async forget(table: TableRef): Promise<void> {
    const { catalog, datasets, recoveryMarks, writer, maintenance } = this.#deps;
    maintenance.forget(table);
    writer.forget(table);
    const record = await catalog.findTable(table);
    if (record === undefined) return;
    datasets.forget(record.location);
    recoveryMarks.forget(record.id);
  }

  isIdle(table: TableRef): boolean {
    const { locks, maker, indexJobs } = this.#deps;
    return locks.isIdle(table) && !maker.isMaking(table) && !indexJobs.isBuilding(table);
  }
}
