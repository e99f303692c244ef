/**
 * A job reaches its branch so. It holds the table's lock shared, so the table can neither be dropped nor replaced, and takes the
 * branch's lock only for what writers must not see half done: setting the recovery mark, and its commit.
 */
import type { OpenBranchCatalog, TableCatalog } from '../../catalog/port.ts';
import type { Branched, BranchHead, Snapshot } from '../../engine/port/dataset.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import { isMade } from '../../engine/port/refusal.ts';
import type { Tagged } from '../../engine/port/stored-tags.ts';
import type { PreparedCommit, Upkeep } from '../../engine/port/upkeep.ts';
import { isStorageFull, LancegateError, notTheFirstStep } from '../../kernel/errors.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { BranchRef } from '../report.ts';

/** What a job needs of its branch. */
export type MaintainedBranch = Snapshot & BranchHead & Upkeep & Tagged;

interface AccessDeps {
  readonly catalog: TableCatalog & OpenBranchCatalog;
  readonly engine: Datasets;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
}

export class BranchAccess {
  readonly #deps: AccessDeps;

  constructor(deps: AccessDeps) {
    this.#deps = deps;
  }

  /** Answers undefined if the table does not exist any more, or if another process owns it. */
  async onTable<Result>(
    target: BranchRef,
    work: (dataset: MaintainedBranch & Branched) => Promise<Result>,
  ): Promise<Result | undefined> {
    if (!this.#deps.locks.isOwn(target.table)) return undefined;
    const release = await this.#deps.locks.lockShared(target.table, neverAborts);
    try {
      const record = await this.#deps.catalog.findTable(target.table);
      if (record?.id !== target.tableId || record.state !== 'created') return undefined;
      const dataset = await this.#deps.engine.open(target);
      try {
        return await work(dataset);
      } finally {
        dataset.close();
      }
    } finally {
      release();
    }
  }

  /** Marks as `markBranch` does, for a holder of the table's shared lock; the dataset is at its newest version then. */
  async mark({ table, tableId, branch }: BranchRef, dataset: Snapshot & BranchHead): Promise<void> {
    const { locks, recoveryMarks } = this.#deps;
    const release = await locks.lockBranch(table, branch, neverAborts);
    try {
      await dataset.refresh('to write');
      await recoveryMarks.beforeCommit({ id: tableId, ref: table }, branch, dataset);
    } finally {
      release();
    }
  }

  /**
   * Takes the branch's lock for the commit alone; writers may go on before it is durable. Makes none if `isWanted` says no of the
   * newest version: a client has dropped, meanwhile, what was built again.
   */
  async commitPrepared(
    { table, tableId, branch }: BranchRef,
    dataset: Snapshot & BranchHead,
    prepared: PreparedCommit,
    isWanted?: () => Promise<boolean>,
  ): Promise<{ readonly isMade: boolean; readonly lockedMs: number; readonly removedFragments: number }> {
    const { locks, recoveryMarks } = this.#deps;
    const release = await locks.lockBranch(table, branch, neverAborts);
    const startMs = performance.now();
    try {
      await dataset.refresh('to write');
      if ((await isWanted?.()) === false) return { isMade: false, lockedMs: 0, removedFragments: 0 };
      await recoveryMarks.beforeCommit({ id: tableId, ref: table }, branch, dataset);
      const outcome = await prepared.commit();
      const lockedMs = performance.now() - startMs;
      release();
      if (!isMade(outcome))
        throw new LancegateError(
          'ConcurrentModification',
          'commits meanwhile changed what was to be replaced; nothing was changed',
        );
      await recoveryMarks.acknowledge(tableId, branch, dataset).catch(notTheFirstStep);
      return { isMade: true, lockedMs, removedFragments: outcome.removedFragments };
    } finally {
      release();
      prepared.discard();
    }
  }

  /**
   * Recovery after a power cut goes back to this version (P3): the newest one, if the catalog has space to record it. Holds
   * the branch's lock, so that no commit comes between. `InvalidTableState` for a branch that has gone back.
   */
  async acknowledgedVersion({ table, tableId, branch }: BranchRef, dataset: Snapshot & BranchHead): Promise<number> {
    const { locks, catalog, recoveryMarks } = this.#deps;
    const release = await locks.lockBranch(table, branch, neverAborts);
    try {
      await dataset.refresh('to write');
      await recoveryMarks.requireNotBehind({ id: tableId, ref: table }, branch, dataset);
      await recoveryMarks.acknowledge(tableId, branch, dataset).catch((error: unknown) => {
        if (!isStorageFull(error)) throw error;
      });
      const open = (await catalog.recoveryMarks(table)).find(
        (each) => each.tableId === tableId && each.branch === branch,
      );
      return Math.min(await dataset.version(), open?.acknowledgedVersion ?? Number.POSITIVE_INFINITY);
    } finally {
      release();
    }
  }
}
