import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { type CheckedSql, ownSql } from '../../../kernel/checked-sql.ts';
import type { BranchName } from '../../../kernel/ids.ts';
import { neverAborts } from '../../../kernel/read-write-lock.ts';
import { hasTransactionOn, transactionFacts } from '../../../lance-format/transaction/transaction.ts';
import { type ChangeStep, factsOf } from '../../port/change.ts';
import type { ChangeLimits } from '../../port/change-limits.ts';
import type { ColumnView } from '../../port/column-view.ts';
import type { Dataset, StoredBranch, StoredTransaction, StoredVersion, VersionPage } from '../../port/dataset.ts';
import type { IndexSpec } from '../../port/index-spec.ts';
import type { IndexReads } from '../../port/indexes.ts';
import type { MergeCounts, MergeSpec } from '../../port/merge-spec.ts';
import type { CompactionResult, CompactionSpec, IndexBuildScope } from '../../port/reader-work.ts';
import {
  type LiveRows,
  type NewRows,
  type PreparedRows,
  type Replacing,
  type RowAddressSql,
  rowAddress,
  type StagedSource,
} from '../../port/row-address.ts';
import type { Shadow } from '../../port/shadow.ts';
import type { Tags } from '../../port/stored-tags.ts';
import type { Layout, OptimizeResult, PreparedCommit, PruneRequest, PruneResult } from '../../port/upkeep.ts';
import { type CommittingDataset, prepare, prepareCompaction, prepareIndex } from '../commit/prepared-commits.ts';
import type { RowReplacement } from '../commit/row-replacement.ts';
import { ConfirmedRemovals } from '../durability/confirmed-removals.ts';
import { StoreTags } from '../durability/store-tags.ts';
import { clearStoredBranch, placeStoredIndexes } from '../durability/stored-branch.ts';
import { EngineTags, LocalTags } from '../durability/tag-store.ts';
import { type ColumnsAfter, DatasetHead } from '../head/dataset-head.ts';
import { changedRows } from '../live-rows/changed-rows.ts';
import { LiveRowMap } from '../live-rows/live-rows.ts';
import { callOf, runStep } from '../native/changes.ts';
import type { NativeTable } from '../native/native.ts';
import { compactNative } from '../native/native-compaction.ts';
import { buildNativeIndex } from '../native/native-index.ts';
import { type EngineCall, engineCall } from '../native/translate-errors.ts';
import { EngineCommits } from '../shadow/engine-commits.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';
import {
  branchesOf,
  commitManifest,
  isWhole,
  layoutOf,
  optimize,
  plainLayoutOf,
  prune,
  pruneMirrored,
  requireWhole,
} from './engine-upkeep.ts';
import { LanceSnapshot } from './lance-snapshot.ts';
import { createBranch, placeIndexes } from './new-branch.ts';
import { StoredIndexes } from './stored-indexes.ts';
import type { DatasetBuilds, LocalBranch, OwnCommits, ReaderOfDataset, Surroundings } from './surroundings.ts';
import { enginePage, mirroredPage, storedPage } from './version-pages.ts';

const columnsAfter = (step: ChangeStep): ColumnsAfter =>
  factsOf(step).keepsColumns ? 'same columns' : 'other columns';

const ofMaintenance: IndexBuildScope = { principal: undefined, signal: neverAborts };

type RowCommit = (by: RowReplacement, version: number) => Replacing | Promise<Replacing>;

/** One open native table, on one branch. */
export class LanceDataset extends LanceSnapshot implements Dataset {
  readonly #branch: BranchName | undefined;
  readonly #changeInReader: ReaderOfDataset | undefined;
  readonly #builds: DatasetBuilds;
  readonly #openNewest: Surroundings['openNewest'];
  readonly #commits: OwnCommits | undefined;
  readonly #local: LocalBranch | undefined;
  readonly #mirror: BranchMirror | undefined;
  readonly #hooks: Pick<Surroundings, 'onBranchDeleted' | 'requireBounded'>;

  /** `table`: or how it is opened once it is used. */
  constructor(
    table: NativeTable | (() => Promise<NativeTable>),
    {
      branch,
      changeInReader,
      readInReader,
      builds,
      openNewest,
      state,
      commits,
      local,
      mirror,
      ...hooks
    }: Surroundings = {},
  ) {
    super(new DatasetHead(table, { folder: local?.versions, mirror, state }), readInReader);
    this.#branch = branch;
    this.#changeInReader = changeInReader;
    this.#builds = builds ?? {
      build: ({ spec }) => this.buildIndex(spec),
      compact: ({ spec }) => this.compact(spec),
    };
    this.#openNewest = openNewest;
    this.#commits = commits;
    this.#local = local;
    this.#mirror = mirror;
    this.#hooks = hooks;
  }

  get isReplaced(): boolean {
    return this.head.isReplaced;
  }

  refresh(purpose: 'to read' | 'to write' = 'to read'): Promise<void> {
    return engineCall('open', () => this.head.refresh(purpose));
  }

  async append(file: IpcFile): Promise<void> {
    await this.change({ kind: 'append', rows: 0 }, file, { timeoutMs: undefined, principal: undefined });
  }

  merge(spec: MergeSpec, file: IpcFile, timeoutMs: number | undefined, principal?: string): Promise<MergeCounts> {
    return this.change({ kind: 'merge', spec }, file, { timeoutMs, principal });
  }

  change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeCounts> {
    const { call, filter } = callOf(step);
    const run = async (): Promise<MergeCounts> => {
      this.head.requireWritable();
      const version = await this.head.version();
      if (this.#changeInReader !== undefined) {
        const counts = await this.#changeInReader({ lineage: this.lineage, version, step, file, ...limits });
        this.head.committedElsewhere(counts.version, columnsAfter(step));
        return counts;
      }
      const chosen = this.#commits?.indexChoice.chosen(step, version, file?.length ?? 0);
      const counts = await runStep(await this.head.table(), chosen ?? step, file, limits.timeoutMs);
      this.head.committed(counts.version, columnsAfter(step));
      return counts;
    };
    return engineCall(call, run, filter);
  }

  view(version: number, columns: readonly string[], limits: ChangeLimits): Promise<ColumnView | undefined> {
    return engineCall('local folder', async () => this.#commits?.shadows.view(version, columns, limits));
  }

  liveRows(): LiveRows | undefined {
    return this.#commits && new LiveRowMap(this.#commits.versionsFolder);
  }

  prepareRows(rows: NewRows): PreparedRows {
    return this.#commits?.replacement.prepare(rows) ?? { ...rows, discard: () => undefined };
  }

  replaceRows(...[tracked, addresses, rows, options = {}]: Parameters<Dataset['replaceRows']>): Promise<Replacing> {
    return this.#replaceHead((replacement, head) => {
      if (!(tracked instanceof LiveRowMap)) return 'refused';
      if (tracked.version !== (options.turn?.follows ?? head)) return 'overtaken';
      return replacement.commit(tracked, addresses, rows, options);
    });
  }

  stageSource(columns: IpcFile | undefined): StagedSource | undefined {
    return this.#commits?.replacement.stageSource(columns);
  }

  appendRows(rows: PreparedRows | StagedSource): Promise<Replacing> {
    return this.#replaceHead((replacement, version) => replacement.append(version, rows));
  }

  overwriteRows(source: StagedSource): Promise<Replacing> {
    return this.#replaceHead((replacement, version) => replacement.overwrite(version, source), 'other columns');
  }

  #replaceHead(commit: RowCommit, columns: ColumnsAfter = 'same columns'): Promise<Replacing> {
    return engineCall('replace', async () => {
      if (this.isReplaced) return 'overtaken'; // the caller opens what is there now
      this.head.requireWritable();
      const made = this.#commits
        ? await commit(this.#commits.replacement, await this.head.mirroredVersion())
        : 'refused';
      if (typeof made === 'object') this.head.committedElsewhere(made.version, columns);
      return made;
    });
  }

  shadow(): Promise<Shadow> {
    return engineCall('open', async () => {
      this.head.requireWritable();
      const version = await this.head.mirroredVersion();
      const choice = this.#commits?.indexChoice;
      const usesIndex = (spec: MergeSpec, bytes: number) => choice?.usesIndex(spec, version, bytes) ?? spec.useIndex;
      const onCommit = (made: number, columns: ColumnsAfter) => this.head.committedElsewhere(made, columns);
      const begin = async () => this.#commits?.shadows.begin(version, { usesIndex, onCommit });
      const versionsFolder = this.#local?.versions.path ?? this.#mirror?.versionsFolder;
      return (await engineCall('replace', begin)) ?? new EngineCommits(this, version, versionsFolder);
    });
  }

  commitManifest(...[change, limits]: Parameters<Dataset['commitManifest']>): ReturnType<Dataset['commitManifest']> {
    return engineCall('restore', async () => {
      this.head.requireWritable();
      const version = await this.head.mirroredVersion();
      if (change.kind === 'restore') await this.#mirror?.take(change.version);
      const own = (await this.#commits?.manifestCommit.commit(version, change, limits)) ?? 'refused';
      const made = own === 'refused' ? await commitManifest(this.#openNewest, change, version) : own;
      if (made !== 'overtaken') this.head.committedElsewhere(made.version, 'other columns');
      return made;
    });
  }

  async deleteWhere(where: CheckedSql): Promise<number> {
    const limits = { timeoutMs: undefined, principal: undefined };
    return (await this.change({ kind: 'delete', where }, undefined, limits)).numDeletedRows;
  }

  note(properties: Readonly<Record<string, string>> | undefined): void {
    if (this.#commits !== undefined) this.#commits.notes.properties = properties;
  }

  mayHaveCommitted(matched: number): Promise<boolean> {
    return engineCall('open', async () => {
      if (this.#local !== undefined) return hasTransactionOn(this.#local.versions.path, matched);
      await this.refresh();
      return (await this.head.version()) > matched;
    });
  }

  async deleteRows(addresses: readonly RowAddressSql[]): Promise<{ readonly numDeletedRows: number }> {
    return { numDeletedRows: await this.deleteWhere(ownSql(`${rowAddress} IN (${addresses.join(', ')})`)) };
  }

  async changedRows(version: number, change: 'removed' | 'added'): Promise<readonly RowAddressSql[] | undefined> {
    return this.#commits && changedRows(this.#commits.versionsFolder, version, change);
  }

  layout(): Promise<Layout> {
    return engineCall('maintain', async () => {
      const folder = this.#commits?.versionsFolder;
      if (folder !== undefined && this.#mirror !== undefined) {
        const layout = plainLayoutOf(folder, await this.head.mirroredVersion(), await this.schema());
        if (layout !== undefined) return layout;
      }
      return layoutOf(await this.head.table(), await this.schema(), folder);
    });
  }

  versionPage(page: VersionPage): Promise<readonly StoredVersion[]> {
    return engineCall('open', async () => {
      if (this.#local !== undefined) return storedPage(this.#local.versions, page);
      if (this.#mirror !== undefined) return mirroredPage(this.#mirror, this.#branch, page);
      return enginePage(await this.head.table(), this.#branch, page);
    });
  }

  transactionOf(version: number): Promise<StoredTransaction | undefined> {
    return engineCall('open', async () => {
      await this.#mirror?.take(version);
      return this.#commits && transactionFacts(this.#commits.versionsFolder, version);
    });
  }

  isWhole(version: number): Promise<boolean> {
    return engineCall('open', async () => {
      if (this.#local !== undefined) return isWhole(this.#local.versions, version);
      return this.#mirror === undefined || (await this.#mirror.take(version)) !== undefined;
    });
  }

  compact(spec: CompactionSpec): Promise<CompactionResult> {
    return this.#commit('maintain', (table) => compactNative(table, spec));
  }

  optimize(supersededBeforeMs: number, confirm?: () => Promise<void>, signal = neverAborts): Promise<OptimizeResult> {
    return engineCall('maintain', async () => {
      const compact = async (beforeMs: number) => {
        const spec = { supersededBeforeMs: beforeMs, isToRead: false };
        try {
          return await this.#builds.compact({ spec, version: await this.head.version(), signal });
        } finally {
          await this.head.refresh('to read');
        }
      };
      this.head.requireWritable();
      return optimize(await this.head.table(), compact, supersededBeforeMs, confirm);
    });
  }

  prune(request: PruneRequest): Promise<PruneResult | undefined> {
    return engineCall('maintain', async () => {
      this.head.requireWritable();
      const inRemoval = this.#commits?.inRemoval;
      if (inRemoval === undefined) return undefined;
      const table = await this.head.table();
      if (this.#local !== undefined) return prune(table, this.#local.versions, { ...request, inRemoval });
      if (this.#mirror === undefined) return undefined;
      const branch = { mirror: this.#mirror, branch: this.#branch, tags: await this.tags.list() };
      return pruneMirrored(table, branch, { ...request, inRemoval });
    });
  }

  async prepareCompaction(fragments: readonly number[], signal = neverAborts): Promise<PreparedCommit | undefined> {
    this.head.requireWritable();
    const preparation = this.#commits?.preparation;
    await this.#mirror?.newestToWrite();
    if (preparation === undefined) return undefined;
    return prepare(this.#committing, (version) => prepareCompaction(preparation, version, fragments, signal));
  }

  async buildIndex(spec: IndexSpec): Promise<void> {
    await this.#commit('index', (table) => buildNativeIndex(table, spec));
  }

  async prepareIndex(spec: IndexSpec, scope: IndexBuildScope = ofMaintenance): Promise<PreparedCommit> {
    this.head.requireWritable();
    const preparation = this.#commits?.preparation;
    const prepared =
      preparation &&
      (await prepare(this.#committing, (version) => prepareIndex(preparation, version, spec, scope), 'index'));
    if (prepared !== undefined) return prepared;
    await this.#builds.build({ ...scope, spec, version: await this.head.version() });
    await this.head.refresh('to read');
    return { commit: async () => 0, discard: () => undefined };
  }

  get #committing(): CommittingDataset {
    return { version: () => this.head.mirroredVersion(), onCommit: (version) => this.head.committedElsewhere(version) };
  }

  async createBranch(
    name: BranchName,
    from: { branch: BranchName | undefined; version: number | undefined },
    confirm?: () => Promise<void>,
  ): Promise<void> {
    await engineCall('new branch', async () => {
      this.head.requireWritable();
      await this.#hooks.requireBounded?.(from.branch, from.version);
      if (this.#local !== undefined) requireWhole(this.#local.versions, from);
      if (this.#mirror !== undefined) await clearStoredBranch(this.#mirror, name, confirm);
      const made = await createBranch(await this.head.table(), name, from);
      if (this.#mirror !== undefined) {
        await placeStoredIndexes(this.#mirror, made, confirm).catch((error) => this.#unmake(name, error, confirm));
      }
      if (this.#local === undefined) return;
      placeIndexes(this.#local.versions.datasetPath, made);
      await this.#local.durability.branchMade(name, made.version);
    });
  }

  async #unmake(name: BranchName, error: unknown, confirm: (() => Promise<void>) | undefined): Promise<never> {
    await this.deleteBranch(name, confirm);
    throw error;
  }

  listBranches(): Promise<readonly StoredBranch[]> {
    return engineCall('branch', async () => branchesOf(await this.head.table(), this.#hooks.requireBounded));
  }

  async deleteBranch(name: BranchName, confirm?: () => Promise<void>): Promise<void> {
    await engineCall('branch', async () => {
      const branches = await (await this.head.table()).branches();
      await new ConfirmedRemovals(confirm).next();
      await branches.delete(name);
      await this.#local?.durability.branchDeleted();
      this.#hooks.onBranchDeleted?.(name);
    });
  }

  get indexes(): IndexReads {
    return new StoredIndexes(() => this.head.table(), this.#local?.versions);
  }

  get tags(): Tags {
    const { store, datasetPrefix } = this.#mirror ?? {};
    if (store !== undefined && datasetPrefix !== undefined) return new StoreTags(store, datasetPrefix.slice(0, -1));
    if (this.#local === undefined) return new EngineTags(() => this.head.table());
    return new LocalTags(this.#local.versions.datasetPath, this.#local.durability);
  }

  sync(after?: number): Promise<void> {
    return engineCall('sync', async () => this.#local?.durability.sync(await this.head.version(), after));
  }

  /** A commit whose version the caller does not need. */
  #commit<Result>(call: EngineCall, run: (table: NativeTable) => Promise<Result>): Promise<Result> {
    return engineCall(call, () => {
      this.head.requireWritable();
      return this.head.commit(run);
    });
  }
}
