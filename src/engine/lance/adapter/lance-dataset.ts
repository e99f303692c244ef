import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { readSchemaOfIpcFile } from '../../../arrow/schema/read-schema.ts';
import type { Schema } from '../../../arrow/schema/schema.ts';
import { type CheckedSql, ownSql } from '../../../kernel/checked-sql.ts';
import type { LancegateError } from '../../../kernel/errors.ts';
import type { BranchName } from '../../../kernel/ids.ts';
import { rowChangeBetween } from '../../../lance-format/transaction/row-change.ts';
import { hasTransactionOn } from '../../../lance-format/transaction/transaction-files.ts';
import type {
  BranchFacts,
  Dataset,
  FilteredMerge,
  Layout,
  MergeCounts,
  MergeSpec,
  OptimizeResult,
  PreparedCommit,
  Projection,
  PruneRequest,
  PruneResult,
  RowChange,
  StoredVersion,
  TableStatistics,
  VersionFacts,
  VersionPage,
} from '../../port/engine.ts';
import {
  type LiveRows,
  type NewRows,
  type PreparedRows,
  type Replacing,
  type RowAddress,
  type RowAddressSql,
  rowAddress,
} from '../../port/row-address.ts';
import type { Shadow } from '../../port/shadow.ts';
import type { CommittingDataset, PreparedCommits } from '../commit/prepared-commits.ts';
import type { RowReplacement } from '../commit/row-replacement.ts';
import type { Durability } from '../durability/durability.ts';
import { type BranchState, inspectBranch, nothingLeft } from '../head/branch-state.ts';
import { StandingTable } from '../head/standing-table.ts';
import type { VersionsFolder } from '../head/versions-folder.ts';
import { changedRows } from '../live-rows/changed-rows.ts';
import { LiveRowMap } from '../live-rows/live-rows.ts';
import { filterName, hasClientFilter, runMerge } from '../native/merge-builder.ts';
import { type NativeTable, nativeBtree } from '../native/native.ts';
import { resultsOf } from '../native/query-results.ts';
import { type EngineCall, engineCall } from '../native/translate-errors.ts';
import type { BranchShadows } from '../shadow/branch-shadows.ts';
import { EngineCommits } from '../shadow/engine-commits.ts';
import { branchesOf, createBranch } from './branches-of.ts';
import { layoutOf, optimize, prune, versionsOf } from './engine-upkeep.ts';
import { IndexChoice } from './index-choice.ts';
import { schemaOfNullColumn } from './null-column.ts';
import { statisticsOf, versionPageOf } from './version-facts.ts';
import { type DatasetCaches, warmIndex } from './warm-index.ts';

/** Runs merges with clients' filters in a reader. */
export type DatasetFilters = (merge: Omit<FilteredMerge, 'store' | 'location' | 'branch'>) => Promise<MergeCounts>;

interface Surroundings {
  readonly filters?: DatasetFilters | undefined;
  readonly lineage?: symbol | undefined;
  /** undefined is main. */
  readonly branch?: BranchName | undefined;
  /** Of a branch at its newest version. */
  readonly caches?: DatasetCaches;
  /** Of such a one on a file system. */
  readonly versions?: VersionsFolder;
  /** As found when the dataset was opened; undefined for a new one. */
  readonly state?: BranchState | undefined;
  readonly durability?: Durability;
  readonly replacement?: RowReplacement;
  readonly shadows?: BranchShadows;
  readonly prepared?: PreparedCommits;
}

/** One open native table, on one branch. */
export class LanceDataset implements Dataset {
  readonly lineage: symbol;
  readonly #branch: BranchName | undefined;
  readonly #table: StandingTable;
  readonly #filters: DatasetFilters | undefined;
  readonly #caches: DatasetCaches | undefined;
  readonly #versions: VersionsFolder | undefined;
  readonly #durability: Durability | undefined;
  readonly #replacement: RowReplacement | undefined;
  readonly #shadows: BranchShadows | undefined;
  readonly #prepared: PreparedCommits | undefined;
  readonly #indexChoice: IndexChoice | undefined;
  #writeRefusal: LancegateError | undefined;
  #seen: { readonly version: number; readonly schema: Schema; readonly file: IpcFile } | undefined;

  /** On object stores every refresh asks the engine, and what is written counts as durable at once. */
  constructor(table: NativeTable, surroundings: Surroundings = {}) {
    const { lineage, branch, filters, caches, versions, state, durability, replacement, shadows, prepared } =
      surroundings;
    this.#writeRefusal = state?.writeRefusal;
    this.lineage = lineage ?? Symbol('dataset');
    this.#branch = branch;
    this.#table = new StandingTable(table);
    this.#filters = filters;
    this.#caches = caches;
    this.#versions = versions;
    this.#indexChoice = versions && new IndexChoice(versions.path);
    this.#durability = durability;
    this.#replacement = replacement;
    this.#shadows = shadows;
    this.#prepared = prepared;
  }

  get isOutgrown(): boolean {
    return this.#caches?.areReplaced() === true;
  }

  version(): Promise<number> {
    return engineCall('open', () => this.#table.version());
  }

  refresh(): Promise<void> {
    return engineCall('open', async () => {
      const known = this.#versions;
      const change = known?.changeFrom(await this.#table.version());
      if (change === 'none') return;
      if (known !== undefined) await this.#inspect(known, change === 'files');
      await this.#table.latest();
      known?.standsAt(await this.#table.version());
    });
  }

  /** After a fault, the next refresh checks again. */
  async #inspect(known: VersionsFolder, allFiles: boolean): Promise<void> {
    known.distrust();
    known.remember();
    const state = await inspectBranch(known, allFiles);
    if (state === undefined) throw nothingLeft(known.datasetPath);
    this.#writeRefusal = state.writeRefusal;
    known.trust();
  }

  async catchUp(): Promise<void> {
    await engineCall('open', () => this.#table.current());
  }

  /** Read once per version: every merge asks for it, and it rarely changes. */
  async schema(): Promise<Schema> {
    return (await this.#see()).schema;
  }

  async schemaFile(): Promise<IpcFile> {
    return (await this.#see()).file;
  }

  #see(): Promise<{ readonly schema: Schema; readonly file: IpcFile }> {
    return engineCall('open', async () => {
      const version = await this.#table.version();
      if (this.#seen?.version === version) return this.#seen;
      const file = (await (await this.#table.current()).schema()) as IpcFile;
      this.#seen = { version, schema: readSchemaOfIpcFile(file), file };
      return this.#seen;
    });
  }

  countRows(filter?: CheckedSql): Promise<number> {
    return engineCall(filter === undefined ? 'select' : 'count', async () =>
      (await this.#table.current()).countRows(filter),
    );
  }

  async *select(columns: readonly Projection[], where: CheckedSql | undefined): AsyncIterable<IpcFile> {
    const query = (await this.#table.current()).query();
    if (where !== undefined) query.onlyIf(where);
    yield* resultsOf(query, columns);
  }

  async *take(rows: readonly RowAddressSql[], columns: readonly Projection[]): AsyncIterable<IpcFile> {
    yield* resultsOf((await this.#table.current()).takeRowIds(rows.map(BigInt)), columns);
  }

  async append(file: IpcFile): Promise<void> {
    await this.#commit('append', (table) => table.add(file, 'append'));
  }

  merge(
    spec: MergeSpec,
    file: IpcFile,
    timeoutMs: number | undefined,
    principal: string | undefined,
  ): Promise<MergeCounts> {
    const run = async (): Promise<MergeCounts> => {
      this.#requireWritable();
      if (this.#filters !== undefined && hasClientFilter(spec)) {
        const version = await this.#table.version();
        const counts = await this.#filters({ lineage: this.lineage, version, spec, file, timeoutMs, principal });
        this.#committedBeside(counts.version);
        return counts;
      }
      const useIndex = this.#indexChoice?.usesIndex(spec, await this.#table.version(), file.length) ?? spec.useIndex;
      const counts = await runMerge(await this.#table.current(), { ...spec, useIndex }, file, timeoutMs);
      this.#committed(counts.version);
      this.#indexChoice?.merged(counts);
      return counts;
    };
    return engineCall(hasClientFilter(spec) ? 'filtered merge' : 'merge', run, filterName(spec));
  }

  liveRows(): LiveRows | undefined {
    return this.#replacement && this.#versions && new LiveRowMap(this.#versions.path);
  }

  prepareRows(rows: NewRows): PreparedRows {
    return this.#replacement?.prepare(rows) ?? { ...rows, discard: () => undefined };
  }

  replaceRows(tracked: LiveRows, places: Iterable<RowAddress>, rows: NewRows): Promise<Replacing> {
    return engineCall('replace', async () => {
      this.#requireWritable();
      if (!(tracked instanceof LiveRowMap)) return 'refused';
      if (tracked.version !== (await this.#table.version())) return 'overtaken';
      const replaced = (await this.#replacement?.commit(tracked, places, rows)) ?? 'refused';
      if (typeof replaced === 'object') this.#committedBeside(replaced.version);
      return replaced;
    });
  }

  shadow(): Promise<Shadow> {
    return engineCall('open', async () => {
      this.#requireWritable();
      const version = await this.#table.version();
      const choice = this.#indexChoice;
      const usesIndex = (spec: MergeSpec, bytes: number) => choice?.usesIndex(spec, version, bytes) ?? spec.useIndex;
      const onCommit = (made: number) => this.#committedBeside(made);
      const shadow = await this.#shadows?.begin(version, { usesIndex, onCommit });
      return shadow ?? new EngineCommits(this, version);
    });
  }

  deleteWhere(predicate: CheckedSql): Promise<number> {
    return engineCall('maintain', async () => {
      this.#requireWritable();
      const { version, numDeletedRows } = await (await this.#table.current()).delete(predicate);
      this.#committed(version);
      return numDeletedRows;
    });
  }

  gainsByIndex(spec: MergeSpec, sourceBytes: number): Promise<boolean> {
    return engineCall(
      'open',
      async () => this.#indexChoice?.gainsByIndex(spec, await this.#table.version(), sourceBytes) ?? spec.useIndex,
    );
  }

  mayHaveCommitted(matched: number): Promise<boolean> {
    return engineCall('open', async () => {
      if (this.#versions !== undefined) return hasTransactionOn(this.#versions.path, matched);
      await this.refresh();
      return (await this.#table.version()) > matched;
    });
  }

  async deleteRows(addresses: readonly RowAddressSql[]): Promise<{ readonly numDeletedRows: number }> {
    return { numDeletedRows: await this.deleteWhere(ownSql(`${rowAddress} IN (${addresses.join(', ')})`)) };
  }

  async rowChange(after: number, through: number): Promise<RowChange> {
    if (after === through) return 'none';
    return this.#versions === undefined ? 'unknown' : rowChangeBetween(this.#versions.path, after, through);
  }

  async changedRows(version: number, change: 'removed' | 'added'): Promise<readonly RowAddressSql[] | undefined> {
    return this.#versions && (await changedRows(this.#versions.path, version, change));
  }

  async addNullColumn(name: string): Promise<void> {
    await this.#commit('maintain', (table) => table.addColumnsWithSchema(schemaOfNullColumn(name)));
  }

  async dropColumn(name: string): Promise<void> {
    await this.#commit('maintain', (table) => table.dropColumns([name]));
  }

  warmIndex(column: string): Promise<boolean> {
    return engineCall('maintain', async () => warmIndex(await this.#table.current(), this.#caches, column));
  }

  layout(): Promise<Layout> {
    return engineCall('maintain', async () =>
      layoutOf(await this.#table.current(), await this.schema(), this.#versions?.path),
    );
  }

  versions(): Promise<readonly VersionFacts[]> {
    return engineCall('maintain', async () => versionsOf(await this.#table.current()));
  }

  versionPage(page: VersionPage): Promise<readonly StoredVersion[]> {
    const { datasetPath } = this.#versions ?? {};
    return engineCall('open', async () => versionPageOf(await this.#table.current(), datasetPath, this.#branch, page));
  }

  statistics(): Promise<TableStatistics> {
    return engineCall('open', async () => statisticsOf(await this.#table.current()));
  }

  optimize(supersededBeforeMs: number): Promise<OptimizeResult> {
    return this.#commit('maintain', (table) => optimize(table, supersededBeforeMs));
  }

  prune(request: PruneRequest): Promise<PruneResult | undefined> {
    return engineCall('maintain', async () => {
      this.#requireWritable();
      return this.#versions && prune(await this.#table.current(), this.#versions, request);
    });
  }

  async prepareCompaction(fragments: readonly number[]): Promise<PreparedCommit | undefined> {
    this.#requireWritable();
    return this.#prepared?.compaction(this.#committing, fragments);
  }

  async prepareIndex(column: string): Promise<PreparedCommit> {
    this.#requireWritable();
    const prepared = await this.#prepared?.index(this.#committing, column);
    if (prepared !== undefined) return prepared;
    await this.#commit('maintain', (table) => table.createIndex(nativeBtree(), column, true));
    return { commit: async () => 0, discard: () => undefined };
  }

  get #committing(): CommittingDataset {
    return { version: () => this.#table.version(), onCommit: (version) => this.#committedBeside(version) };
  }

  async createBranch(
    name: BranchName,
    from: { branch: BranchName | undefined; version: number | undefined },
  ): Promise<void> {
    await engineCall('branch', async () => {
      this.#requireWritable();
      await this.#durability?.branchMade(name, await createBranch(await this.#table.current(), name, from));
    });
  }

  listBranches(): Promise<readonly BranchFacts[]> {
    return engineCall('branch', async () => branchesOf(await this.#table.current()));
  }

  async deleteBranch(name: BranchName): Promise<void> {
    await engineCall('branch', async () => {
      await (await (await this.#table.current()).branches()).delete(name);
      await this.#durability?.branchDeleted();
    });
  }

  sync(after?: number): Promise<void> {
    return engineCall('sync', async () => this.#durability?.sync(await this.#table.version(), after));
  }

  close(): void {
    this.#table.close();
  }

  #requireWritable(): void {
    if (this.#writeRefusal !== undefined) throw this.#writeRefusal;
  }

  #committed(version: number): void {
    this.#table.committed(version);
    this.#carryTo(version);
  }

  #committedBeside(version: number): void {
    this.#table.committedBeside(version);
    this.#carryTo(version);
  }

  /** A merge changes no columns, and asking for them while the next one is under way waits for that. */
  #carryTo(version: number): void {
    this.#versions?.remember();
    this.#versions?.standsAt(version);
    if (this.#seen?.version === version - 1) this.#seen = { ...this.#seen, version };
  }

  /** A commit whose version nobody has to know at once. */
  #commit<Result>(call: EngineCall, run: (table: NativeTable) => Promise<Result>): Promise<Result> {
    return engineCall(call, () => {
      this.#requireWritable();
      return this.#table.commit(run);
    });
  }
}
