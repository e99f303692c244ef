/**
 * Does what was decided. A job computes in a shadow, concurrently with writers, and `BranchAccess` takes the locks for it. Where the
 * engine alone can compact a branch, writers wait for the whole job.
 *
 * If a job fails halfway, what is committed stands and is as good as what was there before: no job changes a row.
 */
import { isDeepStrictEqual } from 'node:util';
import type { OpenBranchCatalog, TableCatalog } from '../../catalog/port.ts';
import type { Datasets, Locations } from '../../engine/port/engine.ts';
import { btreeOn, type IndexSpec } from '../../engine/port/index-spec.ts';
import type { Layout, PreparedCommit, PruneResult, VersionRange } from '../../engine/port/upkeep.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { BranchName } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { VersionPins } from '../../table/version-pins.ts';
import { isTooTightFor } from '../decide/disk-space.ts';
import {
  type CompactionReason,
  canBeCompacted,
  type Extent,
  type Inspection,
  isConcurrent,
  plainColumns,
  uncoveredFragments,
} from '../decide/policy.ts';
import type { BranchRef, CompactionReport, IndexReport, PruneReport } from '../report.ts';
import { BranchAccess, type MaintainedBranch } from './branch-access.ts';

interface ActionDeps {
  readonly catalog: TableCatalog & OpenBranchCatalog;
  readonly engine: Locations & Datasets;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
  readonly pins: VersionPins;
}

export interface Compaction {
  readonly reason: CompactionReason;
  readonly extent: Extent;
  /** The ids of the fragments, where the compaction is one of a tier. */
  readonly fragments?: readonly number[];
}

/** The part of a report that a compaction measures. */
type Compacted = Pick<
  CompactionReport,
  'lockedMs' | 'removedFragments' | 'removedVersions' | 'removedBytes' | 'isHeldByTag'
>;

const nothingRemoved = { removedFragments: 0, removedVersions: 0, removedBytes: 0, isHeldByTag: false } as const;

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
    }));
  }

  branchesOf(main: BranchRef): Promise<readonly (BranchName | undefined)[] | undefined> {
    return this.#access.onTable(main, async (dataset) => [
      undefined,
      ...(await dataset.listBranches()).map(({ name }) => name),
    ]);
  }

  compact(target: BranchRef, { reason, extent, fragments }: Compaction): Promise<CompactionReport | undefined> {
    return this.#access.onTable(target, async (dataset) => {
      const startMs = performance.now();
      const layout = await dataset.layout();
      const isLocked = extent === 'full' && !isConcurrent(layout);
      const compacted = isLocked
        ? await this.#compactLocked(target, dataset, layout)
        : await this.#compact(target, dataset, fragments ?? fragmentsFor(reason, layout));
      const isRebuilding = extent === 'full' && !isLocked && needsIndexing(layout, compacted);
      const columns = isRebuilding ? plainColumns(layout.indexes) : [];
      const { indexed, isIndexTooLarge } = await this.#indexAgain(target, dataset, columns);
      const durationMs = performance.now() - startMs;
      const { branch } = target;
      return { job: 'compact', branch, reason, extent, ...compacted, indexed, isIndexTooLarge, durationMs };
    });
  }

  buildIndex(target: BranchRef, column: string, reason: IndexReport['reason']): Promise<IndexReport | undefined> {
    return this.#access.onTable(target, async (dataset) => {
      const startMs = performance.now();
      const built = await this.#index(target, dataset, column, reason === 'debt');
      if (built === undefined) return undefined;
      const { isIndexTooLarge } = built;
      const rows = await dataset.countRows();
      const durationMs = performance.now() - startMs;
      return { job: 'index', branch: target.branch, reason, column, rows, isIndexTooLarge, durationMs };
    });
  }

  /**
   * Builds an index again, with its options, in a process of its own and without any lock. The signal ends the process. undefined
   * also if the branch has no such index any more.
   */
  async refreshIndex(
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
      const report = { job: 'index', branch, reason, column, rows: layout.rows, isIndexTooLarge: false } as const;
      if (prepared instanceof LancegateError)
        return { ...report, durationMs: performance.now() - startMs, refusal: prepared };
      const isMade = await this.#commitBuilt(target, opened, spec, prepared).finally(() => prepared.discard());
      return isMade ? { ...report, durationMs: performance.now() - startMs } : undefined;
    } finally {
      unpin();
      opened.close();
    }
  }

  async #commitBuilt(
    target: BranchRef,
    dataset: MaintainedBranch,
    spec: IndexSpec,
    prepared: PreparedCommit,
  ): Promise<boolean> {
    const { locks, catalog } = this.#deps;
    const { table, tableId } = target;
    if (!locks.isOwn(table)) return false; // handed over meanwhile; the lock would claim it back
    const release = await locks.lockShared(table, neverAborts);
    try {
      if ((await catalog.findTable(table))?.id !== tableId) return false;
      const isWanted = async () => hasIndex(await dataset.layout(), spec);
      return (await this.#access.commit(target, dataset, prepared, isWanted)).isMade;
    } finally {
      release();
    }
  }

  /** Writes nothing to the table, so it works on a full disk. */
  prune(
    target: BranchRef,
    reason: PruneReport['reason'],
    supersededBeforeMs: number,
  ): Promise<PruneReport | undefined> {
    return this.#access.onTable(target, (dataset) => this.#prune(target, dataset, reason, supersededBeforeMs));
  }

  /** Removes versions in these ranges, but for those that pruning would leave there at any age. `Unsupported` where only the engine makes commits. */
  removeVersions(
    target: BranchRef,
    within: readonly VersionRange[],
    supersededBeforeMs: number,
  ): Promise<PruneReport | undefined> {
    return this.#access.onTable(target, (dataset) =>
      this.#whileTagsStand(target, dataset, 'by hand', async (keptFromVersion) => {
        const removed = await dataset.prune({
          supersededBeforeMs,
          keptFromVersion,
          within,
          confirm: this.#confirms(target),
        });
        if (removed !== undefined) return removed;
        throw new LancegateError('Unsupported', 'versions of a table on an object store are removed by maintain alone');
      }),
    );
  }

  /** Does so only if the disk has too little space to compact the branch. */
  pruneForSpace(target: BranchRef, supersededBeforeMs: number): Promise<PruneReport | undefined> {
    return this.#access.onTable(target, async (dataset) => {
      const space = await this.#deps.engine.space();
      if (space === undefined || !isTooTightFor(space, await dataset.layout())) return undefined;
      return this.#prune(target, dataset, 'little room', supersededBeforeMs);
    });
  }

  /** Reads an index into memory that was built before this process began. Returns false if it does not fit. */
  async warmIndex(target: BranchRef, column: string): Promise<boolean> {
    return (await this.#access.onTable(target, (dataset) => dataset.warmIndex(column))) ?? true;
  }

  async #compact(target: BranchRef, dataset: MaintainedBranch, wanted: readonly number[]): Promise<Compacted> {
    const pinned = this.#deps.pins.lastFragment(target);
    const fragments = wanted.filter((id) => id > pinned);
    if (fragments.length === 0) return { ...nothingRemoved, lockedMs: 0 };
    await this.#access.mark(target, dataset);
    const prepared = await dataset.prepareCompaction(fragments);
    if (prepared === undefined) return { ...nothingRemoved, lockedMs: 0 };
    const { lockedMs, removedFragments } = await this.#access.commit(target, dataset, prepared);
    return { ...nothingRemoved, lockedMs, removedFragments };
  }

  /**
   * The engine's own compaction of a branch rewrites its indexes, too. The engine would look for an
   * index that the branch has from its parent among the parent's files, and every filter on its column would fail.
   */
  async #compactLocked(
    { table, tableId, branch }: BranchRef,
    dataset: MaintainedBranch,
    { indexes }: Layout,
    supersededBeforeMs = 0,
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
      const result = await dataset.optimize(supersededBeforeMs, this.#confirms({ table }));
      await recoveryMarks.acknowledge(tableId, branch, dataset);
      return { ...result, lockedMs: performance.now() - startMs };
    } finally {
      release();
    }
  }

  /** Builds the plain indexes of columns again, but for those that were dropped meanwhile. */
  async #indexAgain(target: BranchRef, dataset: MaintainedBranch, columns: readonly string[]) {
    const indexed: string[] = [];
    let isIndexTooLarge = false;
    for (const column of columns) {
      const built = await this.#index(target, dataset, column, true);
      if (built === undefined) continue;
      indexed.push(column);
      isIndexTooLarge ||= built.isIndexTooLarge;
    }
    return { indexed, isIndexTooLarge };
  }

  /** `isAgain`: the column has an index. undefined if a client has dropped it meanwhile. */
  async #index(target: BranchRef, dataset: MaintainedBranch, column: string, isAgain: boolean) {
    await this.#access.mark(target, dataset);
    const prepared = await dataset.prepareIndex(btreeOn(column));
    const isStillThere = async () => plainColumns((await dataset.layout()).indexes).includes(column);
    const { isMade } = await this.#access.commit(target, dataset, prepared, isAgain ? isStillThere : undefined);
    if (!isMade) return undefined;
    // Merges into branches use no index, so none is read there.
    const fits = target.branch !== undefined || (await dataset.warmIndex(column));
    return { isIndexTooLarge: !fits };
  }

  #prune(
    target: BranchRef,
    dataset: MaintainedBranch,
    reason: PruneReport['reason'],
    supersededBeforeMs: number,
  ): Promise<PruneReport> {
    return this.#whileTagsStand(
      target,
      dataset,
      reason,
      async (keptFromVersion) =>
        (await dataset.prune({ supersededBeforeMs, keptFromVersion, confirm: this.#confirms(target) })) ??
        (await this.#compactLocked(target, dataset, await dataset.layout(), supersededBeforeMs)),
    );
  }

  #confirms({ table }: Pick<BranchRef, 'table'>): () => Promise<void> {
    return () => this.#deps.recoveryMarks.confirm(table);
  }

  /** `remove` gets the version from which on all stay: an index is built from it, or recovery or a writer may need it. */
  async #whileTagsStand(
    target: BranchRef,
    dataset: MaintainedBranch,
    reason: PruneReport['reason'],
    remove: (keptFromVersion: number) => Promise<PruneResult>,
  ): Promise<PruneReport> {
    const release = await this.#deps.locks.lockTags(target.table, neverAborts);
    const startMs = performance.now();
    try {
      const pinned = this.#deps.pins.oldestVersion(target);
      const keptFromVersion = Math.min(pinned, await this.#access.acknowledgedVersion(target, dataset));
      const { removedVersions, removedBytes, isHeldByTag } = await remove(keptFromVersion);
      const durationMs = performance.now() - startMs;
      return { job: 'prune', branch: target.branch, reason, removedVersions, removedBytes, isHeldByTag, durationMs };
    } finally {
      release();
    }
  }
}

/** Those that an index covers which takes long to build are rewritten only where it is built again at once. */
function fragmentsFor(reason: CompactionReason, layout: Layout): readonly number[] {
  const isForAll = reason === 'by hand' || reason === 'before the index';
  const fragments = isForAll ? layout.fragments : uncoveredFragments(layout);
  return canBeCompacted({ fragments }) ? fragments.flatMap(({ id }) => id ?? []) : [];
}

/** It may have been dropped, or built in another way, since it was looked at. */
const hasIndex = ({ indexes }: Layout, spec: IndexSpec): boolean =>
  indexes.some((each) => isDeepStrictEqual(each.spec, spec));

const needsIndexing = ({ indexes }: Layout, { removedFragments }: Compacted): boolean =>
  removedFragments > 0 || indexes.some(({ isPlain, unindexedRows }) => isPlain && unindexedRows > 0);

/** The engine took the options when a client built the index, so it refuses the rows that are there now. */
function unfitting(error: unknown): LancegateError {
  if (error instanceof LancegateError && error.kind === 'InvalidInput') return error;
  throw error;
}
