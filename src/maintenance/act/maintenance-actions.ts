/**
 * Does what was decided. A job computes in a shadow, concurrently with writers, and `BranchAccess` takes the locks for it. Where the
 * engine alone can compact a branch, writers wait for the whole job.
 *
 * If a job fails halfway, what is committed stands and is as good as what was there before: no job changes a row.
 */
import { isDeepStrictEqual } from 'node:util';
import type { OpenBranchCatalog, TableCatalog } from '../../catalog/port.ts';
import type { Datasets, Locations } from '../../engine/port/engine.ts';
import type { IndexSpec } from '../../engine/port/index-spec.ts';
import type { Layout, PreparedCommit, VersionRange } from '../../engine/port/upkeep.ts';
import { LancegateError, notTheFirstStep } from '../../kernel/errors.ts';
import type { BranchName } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { Consumers } from '../../table/consumers.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { VersionPins } from '../../table/version-pins.ts';
import { isTooTightFor } from '../disk-space.ts';
import type { HistoryRoom } from '../history-room.ts';
import { type Compaction, hasIndexOn, type Inspection, isConcurrent } from '../plan.ts';
import type { BranchRef, CompactionReport, IndexReport, PruneReport } from '../report.ts';
import { BranchAccess, type MaintainedBranch } from './branch-access.ts';

interface ActionDeps {
  readonly catalog: TableCatalog & OpenBranchCatalog;
  readonly engine: Locations & Datasets;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
  readonly pins: VersionPins;
  readonly consumers: Consumers;
  /** Without it no version stays for the sake of undo. */
  readonly history?: HistoryRoom;
}

/** The part of a report that a compaction measures. */
type Compacted = Pick<
  CompactionReport,
  'lockedMs' | 'isMade' | 'removedFragments' | 'removedVersions' | 'removedBytes' | 'isHeldByTag'
>;

const nothingRemoved = { removedVersions: 0, removedBytes: 0, isHeldByTag: false } as const;
const nothingCompacted = { ...nothingRemoved, isMade: false, removedFragments: 0, lockedMs: 0 } as const;

/** Each method returns `undefined` if the table does not exist any more, or if another process owns it. */
export class MaintenanceActions {
  readonly #deps: ActionDeps;
  readonly #access: BranchAccess;

  constructor(deps: ActionDeps) {
    this.#deps = deps;
    this.#access = new BranchAccess(deps);
  }

  inspect(target: BranchRef): Promise<Inspection | undefined> {
    return this.#access.onTable(target, async (dataset) => ({
      layout: await dataset.layout(),
      schema: await dataset.schema(),
      lastPinned: this.#deps.pins.lastFragment(target),
    }));
  }

  branchesOf(main: BranchRef): Promise<readonly (BranchName | undefined)[] | undefined> {
    return this.#access.onTable(main, async (dataset) => [
      undefined,
      ...(await dataset.branches.list()).map(({ name }) => name),
    ]);
  }

  /** By `all` the engine compacts under the lock, where this service cannot compact the branch itself. */
  compact(
    target: BranchRef,
    { reason, fragments }: Omit<Compaction, 'job'>,
    signal: AbortSignal,
  ): Promise<CompactionReport | undefined> {
    return this.#access.onTable(target, async (dataset) => {
      const startMs = performance.now();
      const layout = await dataset.layout();
      const all = layout.fragments.flatMap(({ id }) => id ?? []);
      const compacted =
        fragments === 'all' && !isConcurrent(layout)
          ? await this.#compactLocked(target, dataset, layout, signal)
          : await this.#compact(target, dataset, fragments === 'all' ? all : fragments, signal);
      const durationMs = performance.now() - startMs;
      return { job: 'compact', branch: target.branch, reason, ...compacted, indexed: [], durationMs };
    });
  }

  /**
   * Builds an index in a process of its own and without any lock; the signal ends the process. undefined also if a client has dropped
   * meanwhile what was to be built again, or built what merges ask for.
   */
  async buildIndex(
    target: BranchRef,
    spec: IndexSpec,
    reason: IndexReport['reason'],
    signal: AbortSignal,
  ): Promise<IndexReport | undefined> {
    const { branch } = target;
    const startMs = performance.now();
    const opened = await this.#access.onTable(target, async (dataset) => {
      await this.#access.mark(target, dataset);
      return this.#deps.engine.open(target);
    });
    if (opened === undefined) return undefined;
    let unpin = (): void => undefined;
    try {
      const layout = await opened.layout();
      unpin = this.#deps.pins.pin(target, await opened.version(), layout);
      const prepared = await opened.prepareIndex(spec, { principal: undefined, signal }).catch(unfitting);
      const { column } = spec;
      const report = { job: 'index', branch, reason, column, rows: layout.rows } as const;
      if (prepared instanceof LancegateError)
        return { ...report, durationMs: performance.now() - startMs, refusal: prepared };
      const isWanted = async () => {
        const newest = await opened.layout();
        // It may have been dropped, or built in another way, since it was looked at.
        return reason === 'merges on the column'
          ? !hasIndexOn(newest, column)
          : newest.indexes.some((each) => isDeepStrictEqual(each.spec, spec));
      };
      const isMade = await this.#commitBuilt(target, opened, prepared, isWanted).finally(() => prepared.discard());
      return isMade ? { ...report, durationMs: performance.now() - startMs } : undefined;
    } finally {
      unpin();
      opened.close();
    }
  }

  async #commitBuilt(
    target: BranchRef,
    dataset: MaintainedBranch,
    prepared: PreparedCommit,
    isWanted: () => Promise<boolean>,
  ): Promise<boolean> {
    const { locks, catalog } = this.#deps;
    const { table, tableId } = target;
    if (!locks.isOwn(table)) return false; // it was handed over meanwhile; the lock would claim it back
    const release = await locks.lockShared(table, neverAborts);
    try {
      if ((await catalog.findTable(table))?.id !== tableId) return false;
      return (await this.#access.commitPrepared(target, dataset, prepared, isWanted)).isMade;
    } finally {
      release();
    }
  }

  /**
   * Writes nothing to the table, so it works on a full disk. It removes versions in the ranges `within`, or all that are old enough; those
   * that pruning would leave there at any age stay.
   */
  prune(
    target: BranchRef,
    reason: PruneReport['reason'],
    supersededBeforeMs: number,
    within?: readonly VersionRange[],
  ): Promise<PruneReport | undefined> {
    return this.#access.onTable(target, (dataset) => this.#prune(target, dataset, reason, supersededBeforeMs, within));
  }

  /** Does so only if the disk has too little space to compact the branch. */
  pruneForSpace(target: BranchRef, supersededBeforeMs: number): Promise<PruneReport | undefined> {
    return this.#access.onTable(target, async (dataset) => {
      const space = await this.#deps.engine.space();
      if (space === undefined || !isTooTightFor(space, await dataset.layout())) return undefined;
      return this.#prune(target, dataset, 'little room', supersededBeforeMs);
    });
  }

  async #compact(
    target: BranchRef,
    dataset: MaintainedBranch,
    wanted: readonly number[],
    signal: AbortSignal,
  ): Promise<Compacted> {
    const pinned = this.#deps.pins.lastFragment(target);
    const fragments = wanted.filter((id) => id > pinned);
    if (fragments.length === 0) return nothingCompacted;
    await this.#access.mark(target, dataset);
    const prepared = await dataset.prepareCompaction(fragments, signal);
    if (prepared === undefined) return nothingCompacted;
    return { ...nothingRemoved, ...(await this.#access.commitPrepared(target, dataset, prepared)) };
  }

  /**
   * The engine's own compaction of a branch rewrites its indexes, too. The engine would look for an
   * index that the branch has from its parent among the parent's files, and every filter on its column would fail.
   */
  async #compactLocked(
    { table, tableId, branch }: BranchRef,
    dataset: MaintainedBranch,
    { indexes }: Layout,
    signal: AbortSignal,
  ): Promise<Compacted> {
    if (branch !== undefined && indexes.length > 0) {
      throw new LancegateError(
        'InvalidTableState',
        `branch '${branch}' has an index that a compaction would break; it is left as it is`,
      );
    }
    const { locks, recoveryMarks } = this.#deps;
    const release = await locks.lockBranch(table, branch, neverAborts);
    const startMs = performance.now();
    try {
      await dataset.refresh('to write');
      await recoveryMarks.beforeCommit({ id: tableId, ref: table }, branch, dataset);
      const result = await dataset.compact({ isToRead: false }, signal);
      await recoveryMarks.acknowledge(tableId, branch, dataset).catch(notTheFirstStep);
      return {
        ...nothingRemoved,
        ...result,
        isMade: result.removedFragments > 0,
        lockedMs: performance.now() - startMs,
      };
    } finally {
      release();
    }
  }

  /** While it runs, all tags stand. An index may be built from a version that stays, or recovery or a writer may need it. */
  async #prune(
    target: BranchRef,
    dataset: MaintainedBranch,
    reason: PruneReport['reason'],
    supersededBeforeMs: number,
    within?: readonly VersionRange[],
  ): Promise<PruneReport> {
    const { locks, pins, recoveryMarks, engine, history: room } = this.#deps;
    const release = await locks.lockTags(target.table, neverAborts);
    const startMs = performance.now();
    try {
      const pinned = pins.oldestVersion(target);
      const held = await this.#heldByConsumers(target, dataset, reason);
      const acknowledged = await this.#access.acknowledgedVersion(target, dataset);
      const keptFromVersion = Math.min(pinned, held, acknowledged);
      const confirm = () => recoveryMarks.confirm(target.table);
      // A request that names versions removes them, history or not.
      const history = within === undefined ? room?.requestFor(target, await engine.space()) : undefined;
      const pruned = await dataset.prune({ supersededBeforeMs, keptFromVersion, history, within, confirm });
      if (history !== undefined) room?.note(target, pruned.history ?? { versions: 0, bytes: 0, cutToMs: undefined });
      return { job: 'prune', branch: target.branch, reason, ...pruned, durationMs: performance.now() - startMs };
    } finally {
      release();
    }
  }

  /** Where there is little room, a consumer keeps no more than the version that it has: its changes are told less exactly then. */
  async #heldByConsumers(target: BranchRef, dataset: MaintainedBranch, reason: PruneReport['reason']): Promise<number> {
    const tags = await dataset.tags.list();
    const expired = this.#deps.consumers.expired(tags);
    for (const { name } of expired) {
      await this.#deps.recoveryMarks.confirm(target.table);
      await dataset.tags.remove(name);
    }
    const standing = tags.filter((tag) => !expired.includes(tag));
    const held = this.#deps.consumers.oldestVersion(standing, target, await dataset.version());
    return reason === 'little room' ? Number.POSITIVE_INFINITY : held;
  }
}

/** The engine took the options when a client built the index, so it refuses the rows that are there now. */
function unfitting(error: unknown): LancegateError {
  if (error instanceof LancegateError && error.kind === 'InvalidInput') return error;
  throw error;
}
