/**
 * The engine as the other rooms see it: datasets of Lance at locations under one storage root. It stores and matches; it does not
 * lock, check sources or know names of tables. Its caller holds the branch's lock wherever a method commits (P2: the engine
 * duplicates keys when two merges run at once).
 *
 * Every method throws `LancegateError` only. An error of the caller's making is `InvalidInput`,
 * `TableSchemaValidationError` or `TableBranchNotFound`, in our words; anything else is `Internal` with the engine's
 * text in `internal`, for the log alone.
 */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { BranchName, Location, Properties } from '../../kernel/ids.ts';
import type { Spelling } from '../../kernel/spelling.ts';
import type { ChangeLimits, ChangeStep, ManifestChange } from './change.ts';
import type { IndexSpec } from './index-spec.ts';
import type { Indexed } from './indexes.ts';
import type { MergeCounts, MergeSpec, Projection } from './merge-spec.ts';
import type { RowQueries } from './query-spec.ts';
import type {
  LiveRows,
  NewRows,
  PreparedRows,
  Replacing,
  RowAddress,
  RowAddressSql,
  StagedSource,
} from './row-address.ts';
import type { Shadow } from './shadow.ts';
import type { Tagged } from './stored-tags.ts';

export interface StoredBranch {
  readonly name: BranchName;
  /** undefined is main. */
  readonly parentBranch: BranchName | undefined;
  readonly parentVersion: number;
  readonly createdAtSeconds: number;
  readonly manifestBytes: number;
}

/** How a branch is stored. */
export interface Layout {
  /** When the version was committed, by the clock of its writer. undefined on object stores. */
  readonly committedAtMs: number | undefined;
  readonly rows: number;
  /** Oldest first. On object stores all count as of one size. */
  readonly fragments: readonly FragmentFacts[];
  /** The size of data and indexes, as far as this version needs them. */
  readonly bytes: number;
  readonly indexes: readonly IndexFacts[];
}

export interface FragmentFacts {
  /** Undefined if `prepareCompaction` cannot take it. */
  readonly id?: number | undefined;
  /** Deleted ones included. */
  readonly rows: number;
  readonly deletedRows: number;
}

export interface IndexFacts {
  readonly name: string;
  readonly columns: readonly string[];
  readonly rows: number;
  readonly unindexedRows: number;
  /** How to build it again; undefined where this service cannot. */
  readonly spec: IndexSpec | undefined;
  /** A BTREE of the name that the engine gives: one that maintenance may have built by itself. */
  readonly isPlain: boolean;
}

export interface VersionPage {
  /** The last version of the page before. */
  readonly after: number | undefined;
  readonly limit: number;
  readonly order: 'ascending' | 'descending';
}

export interface StoredVersion {
  readonly version: number;
  readonly committedAtMs: number;
  /**
   * The manifest, relative to the location of the dataset. On object stores this is the name that the engine gives to
   * manifests of new datasets.
   */
  readonly manifestPath: string;
  /** undefined on object stores. */
  readonly manifestBytes: number | undefined;
}

/** What one version consists of. */
export interface TableStatistics {
  /** The size of data and index files. */
  readonly bytes: number;
  readonly rows: number;
  readonly indexes: number;
  readonly fragments: number;
  /** Fragments of fewer than 100,000 rows. */
  readonly smallFragments: number;
  /** The distribution of rows over fragments, deleted rows included; all 0 without fragments. */
  readonly fragmentRows: Readonly<Record<'min' | 'max' | 'mean' | 'p25' | 'p50' | 'p75' | 'p99', number>>;
}

/** A result that was computed in a shadow, concurrently with the writers of a branch. Nothing of it is visible before `commit`. */
export interface PreparedCommit {
  /**
   * Commits one version, in milliseconds. The caller holds the branch's lock, and the dataset is at its newest version. A
   * commit in between does no harm, unless it wrote the same columns anew, or where the rows are is not known after it: then this
   * returns undefined and has changed nothing. Otherwise it returns how many fewer fragments there are. To be called once.
   */
  commit(): Promise<number | undefined>;
  /** Harmless when repeated, and after `commit`. */
  discard(): void;
}

export interface VersionRange {
  readonly from: number;
  /** Not in the range; `Infinity` where it is open. */
  readonly before: number;
}

export interface PruneRequest {
  /**
   * Versions that a later one superseded before this time are removed, except those that a tag names or a branch starts from.
   */
  readonly supersededBeforeMs: number;
  /** This version and later ones stay. */
  readonly keptFromVersion: number;
  /** Versions outside these stay, too; without it none does. */
  readonly within?: readonly VersionRange[] | undefined;
}

export interface PruneResult {
  readonly removedVersions: number;
  readonly removedBytes: number;
  /** A tag keeps a version that would have been removed otherwise. */
  readonly isHeldByTag: boolean;
}

export interface OptimizeResult extends PruneResult {
  /** How many fewer fragments there are. */
  readonly removedFragments: number;
}

/** The space of the file system that holds the tables. */
export interface Space {
  /** How much this service can still write. */
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeFiles: number;
  /** 0 where it has no bound to them. */
  readonly totalFiles: number;
}

/** One version of a branch. If it was opened at its newest version, reads move along with that. */
export interface Snapshot {
  /** What is known of a version holds for every dataset of this lineage: it is the same branch of the same table. */
  readonly lineage: symbol;
  version(): Promise<number>;
  schema(): Promise<Schema>;
  /** The schema as a file without rows. */
  schemaFile(): Promise<IpcFile>;
  countRows(filter?: CheckedSql): Promise<number>;
  /**
   * Result batches, each a complete IPC file of its own, as large as the engine makes them. At least one, so that the
   * schema is known.
   */
  select(columns: readonly Projection[], where: CheckedSql | undefined): AsyncIterable<IpcFile>;
  /** Result batches as those of `select`, in any order. Rows that are not there are passed over. */
  take(rows: readonly RowAddressSql[], columns: readonly Projection[]): AsyncIterable<IpcFile>;
  /** Read from the manifest alone. */
  statistics(): Promise<TableStatistics>;
  close(): void;
}

/** The newest version of a branch. */
export interface BranchHead {
  /** Whether indexes got more room in memory, since the dataset was opened, than it can use. It works on, but more slowly. */
  readonly isOutgrown: boolean;
  /** Moves to the newest version. */
  refresh(): Promise<void>;
  /**
   * Resolves once this version would survive a power cut (P3), and with it those after `after`, the newest that is known to be
   * durable; by default, those since the last call or since the dataset was opened. To be called after a commit and before it
   * is acknowledged. Making or deleting a branch syncs by itself. Once a sync has failed, what was written may be lost although
   * it can be read, and every sync fails until the next start.
   */
  sync(after?: number): Promise<void>;
}

/** The commits that follow the newest version of a branch: by row address, or in a shadow. */
export interface HeadCommits {
  /**
   * For changes by the engine, at this version. Without the branch's lock from then on until `commit`, that may be `overtaken`.
   */
  shadow(): Promise<Shadow>;
  /** The live rows, for `replaceRows`; undefined where rows cannot be replaced by their addresses, as on object stores. */
  liveRows(): LiveRows | undefined;
  /** Begins to write rows for `replaceRows`, which throws what fails. */
  prepareRows(rows: NewRows): PreparedRows;
  /**
   * Commits one version without the rows at `addresses` and with those of the file, all or nothing. The dataset must be at the
   * version of `tracked`, which is at the new one afterwards.
   */
  replaceRows(tracked: LiveRows, addresses: Iterable<RowAddress>, rows: NewRows): Promise<Replacing>;
  /**
   * For `appendRows` or `overwriteRows` of any number of rows. `columns`: a file without rows, whose columns the rows get as the
   * engine fits them. Nothing is written before the first `append`. undefined where there can be none, as on object stores.
   */
  stageSource(columns: IpcFile | undefined): StagedSource | undefined;
  /** Commits one version with these rows and all that the head has, as `replaceRows`. No key is looked at. */
  appendRows(rows: PreparedRows | StagedSource): Promise<Replacing>;
  /** Commits one version that has these rows and these columns only, as `replaceRows`. Its indexes are gone. */
  overwriteRows(source: StagedSource): Promise<Replacing>;
  /**
   * Commits one version. `overtaken`: another program has committed since the dataset was refreshed, and nothing is written.
   * `TableVersionNotFound` where there is no version to restore; `Unsupported` where neither this service nor the engine can
   * make the change.
   */
  commitManifest(change: ManifestChange): Promise<{ readonly version: number } | 'overtaken'>;
  /**
   * Whether a merge of so many bytes would find its keys sooner through an index that covers all rows. False if it must not use
   * one; else true if that is not known, as without an index.
   */
  gainsByIndex(spec: MergeSpec, sourceBytes: number): Promise<boolean>;
}

/** What earlier commits did. */
export interface History {
  /**
   * The addresses of the rows that the commit of `version` removed, updated ones included; or of those it added, in new
   * fragments. Reads two manifests and deletion vectors; undefined where that is not possible, as on object stores.
   */
  changedRows(version: number, change: 'removed' | 'added'): Promise<readonly RowAddressSql[] | undefined>;
  /** The versions of one page, in its order. */
  versionPage(page: VersionPage): Promise<readonly StoredVersion[]>;
}

/** Maintenance of a branch. */
export interface Upkeep {
  /** Read from the newest manifest alone. */
  layout(): Promise<Layout>;
  /**
   * Builds an index, in place of the one of this name. With `builder` in a process of its own, which the signal ends; without,
   * in this one. What the engine alone may build is committed when this returns.
   */
  prepareIndex(spec: IndexSpec, builder?: IndexBuilder): Promise<PreparedCommit>;
  /**
   * Reads the newest plain BTREE of a column into memory, so that the next merges need not: 0.1 s for each
   * million rows, concurrently with merges. Returns false if there is no room for all of it; then it reads nothing, as without
   * such an index.
   */
  warmIndex(column: string): Promise<boolean>;
  /**
   * Compacts these fragments. Every row keeps its values, and rows that are deleted before the commit are deleted in it, too. No
   * index covers the new fragments. undefined if there is nothing to compact, or if only the engine may do so (`optimize`).
   */
  prepareCompaction(fragments: readonly number[]): Promise<PreparedCommit | undefined>;
  /**
   * For a branch that `prepareCompaction` cannot take: the engine compacts it, removes versions as `prune` (none for 0), and
   * brings all indexes up to date. The caller holds the branch's lock: a commit meanwhile is a conflict.
   */
  optimize(supersededBeforeMs: number): Promise<OptimizeResult>;
  /**
   * Removes old versions and nothing else, without writing anything, so that it works on a full disk; safe concurrently with
   * writers. A crash leaves a version that the next call removes. undefined on object stores.
   */
  prune(request: PruneRequest): Promise<PruneResult | undefined>;
}

/** The branches of a dataset. */
export interface Branches {
  createBranch(name: BranchName, from: { branch: BranchName | undefined; version: number | undefined }): Promise<void>;
  listBranches(): Promise<readonly StoredBranch[]>;
  deleteBranch(name: BranchName): Promise<void>;
}

/** Commits that the engine makes by itself, where there can be no shadow. */
export interface EngineWrites {
  /**
   * Commits one version, or nothing. Past `timeoutMs` it throws `TimedOut`, also in the middle of its commit, which may be
   * there then or in a moment. The same holds for `ReaderDied`, if a reader ran a filter. A filter counts against the share of
   * `principal` (`principalKey`).
   */
  merge(spec: MergeSpec, file: IpcFile, timeoutMs: number | undefined, principal?: string): Promise<MergeCounts>;
  /** As `merge`, of any step; `file` where the step has one. */
  change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeCounts>;
  /** Builds an index in place of the one of this name, and commits it. */
  buildIndex(spec: IndexSpec): Promise<void>;
  /** Commits a version without these rows; addresses without a row are passed over. */
  deleteRows(addresses: readonly RowAddressSql[]): Promise<{ readonly numDeletedRows: number }>;
}

/**
 * A branch of a dataset, open at a version. Commits move it to the one they made. What uses one takes those of these interfaces
 * that it needs.
 */
export interface Dataset
  extends Snapshot,
    RowQueries,
    BranchHead,
    HeadCommits,
    History,
    Upkeep,
    Branches,
    Tagged,
    Indexed,
    EngineWrites {}

export interface OpenRequest {
  readonly location: Location;
  readonly branch?: BranchName | undefined;
  readonly version?: number | undefined;
  /** The lineage of the open dataset that the new one replaces. */
  readonly lineage?: symbol | undefined;
  /** Only this service writes to it, and knows that its files are there: nothing of it is checked. */
  readonly isPrivate?: boolean | undefined;
}

/** A branch whose writer ended without closing it. */
export interface RecoverRequest {
  readonly location: Location;
  readonly branch: BranchName | undefined;
  /** The newest one; 0 if there is none, because the branch was being made. */
  readonly acknowledgedVersion: number;
  /** `Engine.storageSession` as it was when the branch was opened for writing. */
  readonly storageSession: string;
}

export interface Recovery {
  /** Newest version now. */
  readonly version: number;
  /** Versions that were not acknowledged and are intact. */
  readonly kept: readonly number[];
  /** Versions that were not intact; `reason` is for the log alone. */
  readonly removed: readonly { readonly version: number; readonly reason: string }[];
  readonly removedFiles: number;
  /** Why the acknowledged version itself cannot be read; then nothing was touched. For the log alone. */
  readonly damage: string | undefined;
}

export interface ResolvedLocation {
  readonly location: Location;
  /** How the file system compares the names in it. */
  readonly spelling: Spelling;
}

/**
 * A table that cannot be seen before `commit`, which makes it version 1 of its location, whatever number of appends it took. To be
 * ended by `commit` or `discard`. On object stores each append commits, and can be seen.
 */
export interface StagedTable {
  /** The first one decides the columns, also without rows. */
  append(file: IpcFile): Promise<void>;
  countRows(): Promise<number>;
  /**
   * Returns the version, which is durable (P3). Refuses with `location taken` where a dataset is. If it fails there is no version;
   * `Locations.remove` removes the files that are left of one that could not be made durable.
   */
  commit(): Promise<number>;
  /** Harmless when repeated, and after `commit`. */
  discard(): void;
}

/** Where datasets are: under one root. */
export interface Locations {
  /** undefined on object stores. */
  space(): Promise<Space | undefined>;
  /** Removes every file of the location. Harmless when repeated. */
  remove(location: Location): Promise<void>;
  /** False as soon as anything at all is stored at the location. */
  isVacant(location: Location): Promise<boolean>;
  /** What a reader with access to the storage opens; `path` is that of a file of the dataset, relative to the location. */
  uriOf(location: Location, path?: string): string;
  /** The location of a path or URI under the root, or `InvalidInput`: by its text alone, whatever is stored (P9). */
  locationOf(pathOrUri: string, parameter?: string): Location;
  /**
   * Answers where the files of a location really are, links resolved: undefined if nothing is stored there, or if that is
   * outside the root or inside a dataset.
   */
  resolve(location: Location): Promise<ResolvedLocation | undefined>;
}

export interface ClonedVersion {
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly version: number;
}

/** The datasets at these locations. */
export interface Datasets {
  newTable(location: Location, storageOptions: Properties): Promise<StagedTable>;
  /**
   * Makes one version of a dataset the only one of a new location, which then shares no file name with it: nothing that happens to
   * the one touches the other. Durable when it resolves (P3); what fails leaves files at `to`. The caller keeps the version from
   * being pruned. `TableVersionNotFound`; `Unsupported` on object stores, and for tables with features that cannot be carried over.
   */
  clone(from: ClonedVersion, to: Location): Promise<void>;
  /** `TableNotFound`, `TableBranchNotFound`, `TableVersionNotFound`. */
  open(request: OpenRequest): Promise<Dataset>;
  /** A private folder for intermediate results; gone with `discard`. */
  scratch(): Promise<Scratch>;
}

/** What the end of a writer leaves behind. */
export interface BranchRecovery {
  /** Names the time during which nothing written is lost even if it was not synced. A power cut ends it. */
  readonly storageSession: string;
  /** Undoes what a branch has of commits that were cut short (P1). Meanwhile nothing else may use the dataset. */
  recover(request: RecoverRequest): Promise<Recovery>;
}

/** As with `Dataset`: what uses it takes those of these interfaces that it needs. */
export interface Engine extends Locations, Datasets, BranchRecovery {}

/** A step that evaluates what a client wrote, for a dataset of this engine at its checked-out version. */
export interface ReaderChange extends ChangeLimits {
  /** Where the location is: under the storage root, in a shadow there, or in the folder for intermediate results. */
  readonly store: 'root' | 'shadow' | 'scratch';
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly lineage: symbol;
  readonly version: number;
  readonly step: ChangeStep;
  readonly file: IpcFile | undefined;
}

/** Runs such steps in another process, with the contract of `EngineWrites.change`: native code may die of a filter (P12). */
export interface ReaderChanges {
  /** Settles only when nothing can still commit. */
  change(change: ReaderChange): Promise<MergeCounts>;
}

/** Who wants an index, and for how long. */
export interface IndexBuilder {
  /** `principalKey`; undefined for maintenance. */
  readonly principal: string | undefined;
  readonly signal: AbortSignal;
}

/** An index build on a dataset of this engine. */
export interface IndexBuild extends Pick<ReaderChange, 'store' | 'location' | 'branch' | 'version'>, IndexBuilder {
  readonly spec: IndexSpec;
}

/** Builds indexes in another process, with the contract of `EngineWrites.buildIndex`: native code may die of it (P12). */
export interface IndexBuilds {
  /** Settles only when the process has answered or ended. Rejects with the reason of the signal. */
  build(build: IndexBuild): Promise<void>;
}

export interface Scratch {
  create(name: string, file: IpcFile): Promise<Snapshot & EngineWrites>;
  discard(): Promise<void>;
}
