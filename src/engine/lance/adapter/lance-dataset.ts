import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import type { BranchName, Properties } from '../../../kernel/ids.ts';
import { neverAborts } from '../../../kernel/read-write-lock.ts';
import { settingsOf } from '../../../lance-format/manifest/next-manifest.ts';
import { transactionFacts } from '../../../lance-format/transaction/transaction.ts';
import { type ChangeStep, changesRowsOnly } from '../../port/change.ts';
import type { ChangeLimits } from '../../port/change-limits.ts';
import type { ColumnView } from '../../port/column-view.ts';
import type {
  Branches,
  Dataset,
  RowsBetween,
  StoredTransaction,
  StoredVersion,
  VersionPage,
} from '../../port/dataset.ts';
import type { IndexSpec } from '../../port/index-spec.ts';
import type { IndexReads } from '../../port/indexes.ts';
import type { MergeCounts } from '../../port/merge-spec.ts';
import type { CompactionResult, CompactionSpec, IndexBuildScope } from '../../port/reader-work.ts';
import { isMade, type RefusedCommit } from '../../port/refusal.ts';
import type {
  LiveRows,
  NewRows,
  PreparedRows,
  Replacing,
  RowAddressSql,
  StagedSource,
} from '../../port/row-address.ts';
import type { Shadow } from '../../port/shadow.ts';
import type { Tags } from '../../port/stored-tags.ts';
import type { Layout, PreparedCommit, PruneRequest, PruneResult } from '../../port/upkeep.ts';
import { prepare, prepareCompaction, prepareIndex } from '../commit/prepared-commits.ts';
import type { RowReplacement } from '../commit/row-replacement.ts';
import type { ColumnsAfter, DatasetHead } from '../head/dataset-head.ts';
import { changedRows } from '../live-rows/changed-rows.ts';
import { LiveRowMap } from '../live-rows/live-rows.ts';
import { rowsBetween } from '../live-rows/rows-between.ts';
import { runStep, stepCall } from '../native/changes.ts';
import type { NativeTable } from '../native/native.ts';
import { compactNative } from '../native/native-compaction.ts';
import { buildNativeIndex } from '../native/native-index.ts';
import { type EngineCall, engineCall } from '../native/translate-errors.ts';
import { EngineCommits } from '../shadow/engine-commits.ts';
import type { BranchStorage } from '../storage/branch-storage.ts';
import { DatasetTags } from '../storage/dataset-tags.ts';
import { DatasetBranches } from './dataset-branches.ts';
import { commitManifest, layoutOf, namedVersions, plainLayoutOf } from './engine-upkeep.ts';
import { LanceSnapshot } from './lance-snapshot.ts';
import { StoredIndexes } from './stored-indexes.ts';
import type { DatasetBuilds, OwnCommits, ReaderOfDataset, Surroundings } from './surroundings.ts';

const ofMaintenance: IndexBuildScope = { principal: undefined, signal: neverAborts };

const onlyByEngine: RefusedCommit = { refused: 'only the engine commits to the dataset' };

/** One open native table, on one branch. */
export class LanceDataset extends LanceSnapshot implements Dataset {
  readonly #branch: BranchName | undefined;
  readonly #changeInReader: ReaderOfDataset | undefined;
  readonly #builds: DatasetBuilds | undefined;
  readonly #openNewest: Surroundings['openNewest'];
  readonly #commits: OwnCommits | undefined;
  readonly #storage: BranchStorage | undefined;
  readonly #hooks: Pick<Surroundings, 'onBranchDeleted' | 'requireReadable'>;

  constructor(head: DatasetHead, surroundings: Surroundings = {}) {
    const { branch, changeInReader, readInReader, builds, openNewest, commits, storage, ...hooks } = surroundings;
    super(head, readInReader);
    this.#branch = branch;
    this.#changeInReader = changeInReader;
    this.#builds = builds;
    this.#openNewest = openNewest;
    this.#commits = commits;
    this.#storage = storage;
    this.#hooks = hooks;
  }

  refresh(purpose: 'to read' | 'to write' = 'to read'): Promise<'replaced' | undefined> {
    return engineCall('open', () => this.head.refresh(purpose));
  }

  change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeCounts> {
    return stepCall(step, async () => {
      this.head.requireWritable();
      const columns: ColumnsAfter = changesRowsOnly[step.kind] ? 'same columns' : 'other columns';
      const version = await this.head.version();
      if (this.#changeInReader !== undefined) {
        const counts = await this.#changeInReader({ lineage: this.lineage, version, step, file, ...limits });
        this.head.committedPastHandle(counts.version, columns);
        return counts;
      }
      const chosen = this.#commits?.indexChoice.chosen(step, version, file) ?? step;
      const counts = await runStep(await this.head.table(), chosen, file, limits.timeoutMs);
      this.head.committed(counts.version, columns);
      return counts;
    });
  }

  view(version: number, columns: readonly string[], limits: ChangeLimits): Promise<ColumnView | undefined> {
    return engineCall('local folder', async () => this.#commits?.shadows.view(version, columns, limits));
  }

  liveRows(): LiveRows | undefined {
    return this.#storage && new LiveRowMap(this.#storage.versionsFolder);
  }

  prepareRows(rows: NewRows): PreparedRows {
    return this.#commits?.replacement.prepare(rows) ?? { ...rows, discard: () => undefined };
  }

  async replaceRows(...[tracked, ...rest]: Parameters<Dataset['replaceRows']>): Promise<Replacing> {
    if (!(tracked instanceof LiveRowMap)) return onlyByEngine;
    return this.#replaceHead((replacement) => replacement.replace(tracked, ...rest));
  }

  stageSource(columns: IpcFile | undefined): StagedSource | undefined {
    return this.#commits?.replacement.stageSource(columns);
  }

  insertRows(...[rows, mode, properties]: Parameters<Dataset['insertRows']>): Promise<Replacing> {
    return this.#replaceHead((replacement) => replacement.insert(rows, mode, properties));
  }

  #replaceHead(replace: (by: RowReplacement) => Promise<Replacing>): Promise<Replacing> {
    return engineCall('replace', async () => {
      const made = this.#commits ? await replace(this.#commits.replacement) : onlyByEngine;
      return isMade(made) ? { version: made.version, fragments: made.fragments } : made;
    });
  }

  shadow(): Promise<Shadow> {
    return engineCall('open', async () => {
      this.head.requireWritable();
      const version = await this.head.readableVersion();
      const own = this.#commits;
      const begin = async () => own?.shadows.begin(version, (...of) => own.indexChoice.chosen(...of));
      return (await engineCall('replace', begin)) ?? new EngineCommits(this, version, this.#storage?.versionsFolder);
    });
  }

  commitManifest(...given: Parameters<Dataset['commitManifest']>): ReturnType<Dataset['commitManifest']> {
    const [change] = given;
    return engineCall('restore', async () => {
      if (change.kind === 'restore') await this.#storage?.take(change.version);
      const own = (await this.#commits?.manifestCommit.make(...given)) ?? onlyByEngine;
      if (own === 'overtaken' || isMade(own)) return own;
      const made = await commitManifest(this.#openNewest, change, await this.head.version(), own);
      this.head.committedPastHandle(made.version, 'other columns');
      return made;
    });
  }

  mayHaveCommitted(matched: number): Promise<boolean> {
    return engineCall('open', async () => {
      if (this.#storage !== undefined) return this.#storage.mayFollow(matched);
      await this.refresh();
      return (await this.head.version()) > matched;
    });
  }

  async changedRows(version: number, change: 'removed' | 'added'): Promise<readonly RowAddressSql[] | undefined> {
    return this.#storage && changedRows(this.#storage.versionsFolder, version, change);
  }

  rowsBetween(after: number, until: number): Promise<RowsBetween | undefined> {
    return engineCall('open', async () => {
      const storage = this.#storage;
      return (
        storage && rowsBetween(storage.versionsFolder, after, until, (version) => storage.takeWithDeletions(version))
      );
    });
  }

  layout(): Promise<Layout> {
    return engineCall('maintain', async () => {
      const version = await this.head.readableVersion();
      const manifest = await this.#storage?.take(version);
      if (manifest === undefined)
        throw new LancegateError('TableVersionNotFound', `the table has no version ${version}`);
      const schema = await this.schema();
      return plainLayoutOf(manifest.bytes, schema) ?? layoutOf(await this.head.table(), schema, manifest.bytes);
    });
  }

  versionPage(page: VersionPage): Promise<readonly StoredVersion[]> {
    return engineCall('open', async () => (await this.#storage?.page(page)) ?? []);
  }

  transactionOf(version: number): Promise<StoredTransaction | undefined> {
    return engineCall('open', async () => {
      await this.#storage?.take(version);
      return this.#storage && transactionFacts(this.#storage.versionsFolder, version);
    });
  }

  settingsOf(version: number): Promise<Properties | undefined> {
    return engineCall('open', async () => {
      const manifest = await this.#storage?.take(version);
      return manifest && settingsOf(manifest.bytes);
    });
  }

  isWhole(version: number): Promise<boolean> {
    return engineCall('open', async () => {
      await this.#storage?.take(version);
      return this.#storage?.readWhole(version) !== undefined;
    });
  }

  compact(spec: CompactionSpec, signal = neverAborts): Promise<CompactionResult> {
    const call = spec.isToRead ? 'compaction' : 'maintain';
    return this.#byEngine(
      call,
      (table) => compactNative(table, spec),
      (builds, version) => builds.compact({ spec, version, signal }),
    );
  }

  prune(request: PruneRequest): Promise<PruneResult> {
    return engineCall('maintain', async () => {
      this.head.requireWritable();
      const storage = this.#storage;
      if (storage === undefined) throw new LancegateError('Internal', 'a version by itself is not pruned');
      const named = await namedVersions(await this.head.table(), this.#branch, await this.tags.list());
      return storage.prune({ ...request, ...named });
    });
  }

  async prepareCompaction(fragments: readonly number[], signal = neverAborts): Promise<PreparedCommit | undefined> {
    this.head.requireWritable();
    await this.head.refresh('to write');
    if (this.#commits === undefined) return undefined;
    const { loop, preparation } = this.#commits;
    return prepare(loop, (version) => prepareCompaction(preparation, version, fragments, signal));
  }

  buildIndex(spec: IndexSpec, scope = ofMaintenance): Promise<void> {
    return this.#byEngine(
      'index',
      (table) => buildNativeIndex(table, spec),
      (builds, version) => builds.build({ ...scope, spec, version }),
    );
  }

  async prepareIndex(spec: IndexSpec, scope: IndexBuildScope = ofMaintenance): Promise<PreparedCommit> {
    this.head.requireWritable();
    const own = this.#commits;
    const prepared =
      own && (await prepare(own.loop, (version) => prepareIndex(own.preparation, version, spec, scope), 'index'));
    if (prepared !== undefined) return prepared;
    await this.buildIndex(spec, scope);
    return { commit: async () => ({ removedFragments: 0 }), discard: () => undefined };
  }

  get branches(): Branches {
    return new DatasetBranches(this.head, this.#storage, this.#hooks);
  }

  get indexes(): IndexReads {
    const readFiles = async (uuid: string, signal: AbortSignal) =>
      this.#storage?.readIndex(uuid, await this.version(), signal);
    return new StoredIndexes(() => this.head.table(), readFiles);
  }

  get tags(): Tags {
    if (this.#storage === undefined) throw new LancegateError('Internal', 'a version by itself has no tags');
    return new DatasetTags(this.#storage.store, this.#storage.datasetPrefix.slice(0, -1));
  }

  sync(after?: number): Promise<void> {
    return engineCall('sync', async () => this.#storage?.sync(await this.head.version(), after));
  }

  /** A commit whose version the caller does not need, here or in a builder. */
  #byEngine<Result>(
    call: EngineCall,
    here: (table: NativeTable) => Promise<Result>,
    inBuilder: (builds: DatasetBuilds, version: number) => Promise<Result>,
  ): Promise<Result> {
    return engineCall(call, async () => {
      this.head.requireWritable();
      if (this.#builds === undefined) return this.head.byEngine(here);
      try {
        return await inBuilder(this.#builds, await this.head.version());
      } finally {
        await this.head.refresh('to read');
      }
    });
  }
}
