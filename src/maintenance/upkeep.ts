/**
 * Does the jobs. It goes through the table's gate like every writer (design, section 3): a tidying has the branch to itself
 * while fragments are put together, which is the part that conflicts with merges. Pruning and bringing indexes up to date
 * run beside the writers, as does building an index: the engine's commits of them do not conflict with merges, and neither
 * changes which keys the table has (P2). Until a job has ended the table cannot be dropped or replaced.
 *
 * If it fails halfway, what is committed stands and is as good as what was there before: no job changes a row.
 */
import type { Catalog } from '../catalog/port.ts';
import type { Dataset, Engine } from '../engine/port.ts';
import type { TableGates } from '../table/gates.ts';
import type { OpenBranches } from '../table/open-branches.ts';
import type { BranchRef, IndexReport, OptimizeReport } from './job.ts';
import type { OptimizeReason } from './policy.ts';

export interface UpkeepParts {
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly gates: TableGates;
  readonly openBranches: OpenBranches;
}

export interface OptimizeJob {
  readonly target: BranchRef;
  readonly reason: OptimizeReason;
  /** Versions committed before it are superseded for long enough. 0 removes none. */
  readonly pruneBeforeMs: number;
  /** Called while writers are still kept out. */
  readonly onRewritten: () => void;
}

/** Writers ahead have deadlines, so a turn comes by itself. */
const untilItsTurn = new AbortController().signal;

export class Upkeep {
  readonly #parts: UpkeepParts;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  /** undefined where the table is not there any more. */
  inspect<Result>(target: BranchRef, look: (dataset: Dataset) => Promise<Result>): Promise<Result | undefined> {
    return this.#onTable(target, look);
  }

  optimize(job: OptimizeJob): Promise<OptimizeReport | undefined> {
    return this.#onTable(job.target, (dataset) => this.#tidyAndPrune(dataset, job));
  }

  buildIndex(target: BranchRef, column: string): Promise<IndexReport | undefined> {
    return this.#onTable(target, async (dataset) => {
      const startMs = performance.now();
      await this.#announce(target, dataset);
      await dataset.createScalarIndex(column);
      await this.#parts.openBranches.acknowledge(target.tableId, target.branch, dataset);
      const rows = await dataset.countRows();
      const durationMs = performance.now() - startMs;
      return { job: 'index', branch: target.branch, reason: 'merges on the column', column, rows, durationMs };
    });
  }

  /**
   * In two calls, because one would remove old versions before the new one is on disk: after a power cut neither might be
   * there (P3). The second finds next to nothing left to put together.
   */
  async #tidyAndPrune(dataset: Dataset, job: OptimizeJob): Promise<OptimizeReport> {
    const tidied = await this.#optimize(dataset, { ...job, pruneBeforeMs: 0 });
    if (job.pruneBeforeMs === 0) return tidied;
    const pruned = await this.#optimize(dataset, { ...job, onRewritten: () => undefined });
    return {
      ...pruned,
      heldMs: tidied.heldMs + pruned.heldMs,
      durationMs: tidied.durationMs + pruned.durationMs,
      removedFragments: tidied.removedFragments + pruned.removedFragments,
      addedFragments: tidied.addedFragments + pruned.addedFragments,
    };
  }

  async #optimize(
    dataset: Dataset,
    { target, reason, pruneBeforeMs, onRewritten }: OptimizeJob,
  ): Promise<OptimizeReport> {
    const { gates, openBranches } = this.#parts;
    const taggedAtMs = await dataset.oldestTaggedAtMs();
    const isHeldByTag = taggedAtMs !== undefined && taggedAtMs < pruneBeforeMs;
    const leave = await gates.takeBranch(target.table, target.branch, untilItsTurn);
    const startMs = performance.now();
    let heldMs = 0;
    try {
      await dataset.refresh();
      await openBranches.beforeCommit(target.tableId, target.branch, dataset);
      const result = await dataset.optimize({
        pruneBeforeMs: isHeldByTag ? taggedAtMs : pruneBeforeMs,
        onRewritten: () => {
          heldMs = performance.now() - startMs;
          onRewritten();
          leave();
        },
      });
      await openBranches.acknowledge(target.tableId, target.branch, dataset);
      const durationMs = performance.now() - startMs;
      return { job: 'optimize', branch: target.branch, reason, heldMs, durationMs, ...result, isHeldByTag };
    } finally {
      leave();
    }
  }

  /** Under the turn, as before any commit; it is over in no time. */
  async #announce({ table, tableId, branch }: BranchRef, dataset: Dataset): Promise<void> {
    const leave = await this.#parts.gates.takeBranch(table, branch, untilItsTurn);
    try {
      await dataset.refresh();
      await this.#parts.openBranches.beforeCommit(tableId, branch, dataset);
    } finally {
      leave();
    }
  }

  async #onTable<Result>(target: BranchRef, work: (dataset: Dataset) => Promise<Result>): Promise<Result | undefined> {
    const leave = await this.#parts.gates.enterShared(target.table, untilItsTurn);
    try {
      if (!(await this.#isThere(target))) return undefined;
      const dataset = await this.#parts.engine.open(target);
      try {
        return await work(dataset);
      } finally {
        dataset.close();
      }
    } finally {
      leave();
    }
  }

  async #isThere({ table, tableId }: BranchRef): Promise<boolean> {
    const record = await this.#parts.catalog.findTable(table);
    return record?.id === tableId && record.state === 'created';
  }
}
