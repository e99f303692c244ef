/**
 * The engine as the rest of the house sees it: datasets of Lance at locations under one storage root. It stores and
 * matches; it does not take turns, check sources or know names of tables. Those who call it hold the table's turn
 * wherever a method commits (P2: the engine duplicates keys when two merges run at once).
 *
 * Every method throws `LancegateError` only. An error of the caller's making is `InvalidInput`,
 * `TableSchemaValidationError` or `TableBranchNotFound`, in our words; anything else is `Internal` with the engine's
 * text in `internal`, for the log alone.
 */

import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { BranchName, Location, Properties } from '../../kernel/ids.ts';
import type { Spelling } from '../../kernel/places.ts';
import type { MergeCounts, MergeSpec, Projection } from './merge-spec.ts';
import type { LiveRows, NewRows, PreparedRows, Replacing, RowAddress, RowAddressSql } from './row-address.ts';
import type { Shadow } from './shadow.ts';

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
  /** When the version was committed, by the clock of who did. Not known where the engine alone can be asked. */
  readonly committedAtMs: number | undefined;
  readonly rows: number;
  /** Oldest first. Where the engine alone can be asked, on object stores, all are taken to be of one size. */
  readonly fragments: readonly FragmentFacts[];
  /** Of data and indexes, as far as this version needs them. */
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
  readonly columns: readonly string[];
  readonly unindexedRows: number;
  /** As `prepareIndex` makes it. */
  readonly isPlain: boolean;
}

export interface VersionFacts {
  readonly version: number;
  readonly committedAtMs: number;
}

export interface VersionPage {
  /** The last version of the page before. */
  readonly after: number | undefined;
  readonly limit: number;
  readonly order: 'ascending' | 'descending';
}

export interface StoredVersion extends VersionFacts {
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
  /** Of data and index files. */
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
   * Commits one version, in milliseconds. The branch's lock is to be held, and the dataset to stand at its newest version. A
   * commit of another program in between does no harm, unless it changed the same: then it returns undefined and has changed
   * nothing. Otherwise it returns how many fewer fragments there are. To be called once.
   */
  commit(): Promise<number | undefined>;
  /** Harmless when repeated, and after `commit`. */
  discard(): void;
}

export interface PruneRequest {
  /**
   * Versions that the next one took the place of before this time are removed, except those that a tag names or a branch starts
   * from.
   */
  readonly supersededBeforeMs: number;
  /** This version and later ones stay. */
  readonly keptFromVersion: number;
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

/** Of the file system that holds the tables. */
export interface Space {
  /** What this service can still write. */
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeFiles: number;
  /** 0 where it has no bound to them. */
  readonly totalFiles: number;
}

/** One version of a branch. Reads of one that was opened at its newest version move along with it. */
export interface Snapshot {
  /**
   * What is known of a version holds for every dataset of this lineage: it is the same branch of the same table. Another
   * lineage says nothing, as a place can be given to something new.
   */
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

/** The newest version of a branch, and its commits by row address. */
export interface BranchHead {
  /** Since it was opened, indexes have been given more room in memory than it can use. It works on, but more slowly. */
  readonly isOutgrown: boolean;
  /** Moves to the newest version. */
  refresh(): Promise<void>;
  /**
   * For changes by the engine, at the version that this stands at. The branch's lock is to be held from then on until `commit`,
   * unless `overtaken` is no burden.
   */
  shadow(): Promise<Shadow>;
  /** For `replaceRows`; undefined where rows are not to be replaced by their places, as on object stores. */
  liveRows(): LiveRows | undefined;
  /** Begins to write rows for `replaceRows`, which throws what fails. */
  prepareRows(rows: NewRows): PreparedRows;
  /**
   * Commits one version without the rows at `places` and with those of the file, all or nothing. The dataset is to stand at
   * the version of `tracked`, which stands at the new one afterwards.
   */
  replaceRows(tracked: LiveRows, places: Iterable<RowAddress>, rows: NewRows): Promise<Replacing>;
  /**
   * Whether a merge of so many bytes would find its keys sooner through an index that covers all rows: false where it is to
   * use none, else true where it is not known, as where there is no index yet.
   */
  gainsByIndex(spec: MergeSpec, sourceBytes: number): Promise<boolean>;
  /**
   * Reads the newest index that `prepareIndex` built of a column into memory, so that the next merges need not: 0.1 s
   * for each million rows, beside them. Answers false where there is no room for all of it; then nothing is read, as where
   * there is no such index.
   */
  warmIndex(column: string): Promise<boolean>;
  /**
   * Resolves once the version this dataset stands at would survive a power cut (P3), and with it those after `after`, the
   * newest that is known to be durable; without it, those since the last call or since it was opened. To be called after a
   * commit and before anybody is told of it. Branches made or deleted need no such call. Once it has failed, what was
   * written may be lost although it can be read, and it fails for every dataset until the next start.
   */
  sync(after?: number): Promise<void>;
}

/** What earlier commits did. */
export interface History {
  /**
   * The rows that the commit of `version` took away, updated ones included, as `version` − 1 has them; or those it brought, in
   * new fragments. Reads two manifests and files of deletions; undefined where they do not tell, as on object stores.
   */
  changedRows(version: number, change: 'removed' | 'added'): Promise<readonly RowAddressSql[] | undefined>;
  /** Ascending. Reads every manifest: 0.1 ms each. */
  versions(): Promise<readonly VersionFacts[]>;
  /** The versions of one page, in its order. */
  versionPage(page: VersionPage): Promise<readonly StoredVersion[]>;
}

/** Maintenance of a branch. */
export interface Upkeep {
  /** Read from the newest manifest alone. */
  layout(): Promise<Layout>;
  /** Builds the BTREE index of a column, named `{column}_idx`, in place of the one that there is. */
  prepareIndex(column: string): Promise<PreparedCommit>;
  /**
   * Compacts these fragments. Every row keeps its values, and rows that are deleted before the commit are deleted in it, too. No
   * index covers the new fragments. Undefined if there is nothing to compact, or if only the engine may do so (`optimize`).
   */
  prepareCompaction(fragments: readonly number[]): Promise<PreparedCommit | undefined>;
  /**
   * For a branch that `prepareCompaction` cannot take: the engine compacts it, removes versions as `prune` (none for 0), and
   * brings all indexes up to date. The branch's lock is to be held: a commit meanwhile is a conflict.
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
  append(file: IpcFile): Promise<void>;
  /**
   * Commits one version, or nothing. Past `timeoutMs` it throws `TimedOut`, also in the middle of its commit, which may be
   * there then or in a moment: `mayHaveCommitted` says. The same holds for `ReaderDied`, if a reader ran a filter. A
   * filter counts against the share of `principal` (`principalKey`).
   */
  merge(spec: MergeSpec, file: IpcFile, timeoutMs: number | undefined, principal?: string): Promise<MergeCounts>;
  /** False where a merge that began at version `matched` and failed has left no version and will leave none. */
  mayHaveCommitted(matched: number): Promise<boolean>;
  /** Commits a version without these rows; those that are not there any more are passed over. */
  deleteRows(addresses: readonly RowAddressSql[]): Promise<{ readonly numDeletedRows: number }>;
  /** Commits a version that has one more column, nullable, of nothing but NULL (int32). Rewrites no data. */
  addNullColumn(name: string): Promise<void>;
  dropColumn(name: string): Promise<void>;
}

/** A branch of a dataset, open at a version. Commits move it to the one they made. */
export interface Dataset extends Snapshot, BranchHead, History, Upkeep, Branches, EngineWrites {}

export interface OpenRequest {
  readonly location: Location;
  readonly branch?: BranchName | undefined;
  readonly version?: number | undefined;
  /** Of the open dataset that the new one is to take the place of. */
  readonly lineage?: symbol | undefined;
}

/** What to know of a branch whose writer ended without saying so. */
export interface RecoverRequest {
  readonly location: Location;
  readonly branch: BranchName | undefined;
  /** The newest acknowledged version; 0 where there is none, because the branch was being made. */
  readonly acknowledgedVersion: number;
  /** `Engine.storageSession` as it was when the branch was opened for writing. */
  readonly storageSession: string;
}

export interface Recovery {
  /** Newest version now. */
  readonly version: number;
  /** Versions that nobody was told of and that are there wholly. */
  readonly kept: readonly number[];
  /** Versions that were there in part, with what was wrong; `reason` is for the log alone. */
  readonly removed: readonly { readonly version: number; readonly reason: string }[];
  readonly removedFiles: number;
  /** Not undefined: the acknowledged version itself cannot be read, so nothing was touched. For the log alone. */
  readonly damage: string | undefined;
}

export interface ResolvedLocation {
  readonly location: Location;
  /** How the file system compares the names in it. */
  readonly spelling: Spelling;
}

/**
 * A table that nobody sees before `commit`, which makes it version 1 of its location, whatever number of appends it took. To be
 * ended by `commit` or `discard`. On object stores each append commits, and can be seen.
 */
export interface StagedTable {
  /** The first one decides the columns, also without rows. */
  append(file: IpcFile): Promise<void>;
  countRows(): Promise<number>;
  /**
   * Returns the version, which is durable (P3). Refuses with `place taken` where a dataset is, and leaves nothing behind then; a
   * version that could not be made durable is there, for `Locations.remove`.
   */
  commit(): Promise<number>;
  /** Harmless when repeated, and after `commit`. */
  discard(): void;
}

/** Where datasets lie: under one root. */
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
  locationOf(pathOrUri: string): Location;
  /**
   * The real place of a location's files, links resolved. Undefined if nothing is stored there, or if the place is outside the
   * root or inside a dataset.
   */
  resolve(location: Location): Promise<ResolvedLocation | undefined>;
}

export interface Engine extends Locations {
  /** Names the time during which nothing written is lost even if it was not synced. A power cut ends it. */
  readonly storageSession: string;
  /** Undoes what a branch has of commits that were cut short (P1). While it runs nobody else may use the dataset. */
  recover(request: RecoverRequest): Promise<Recovery>;
  newTable(location: Location, storageOptions: Properties): Promise<StagedTable>;
  /** `TableNotFound`, `TableBranchNotFound`, `TableVersionNotFound`. */
  open(request: OpenRequest): Promise<Dataset>;
  /** A private place for intermediate results; gone with `discard`. */
  scratch(): Promise<Scratch>;
}

/** A merge with a filter that a client wrote, for a dataset of this engine at its checked-out version. */
export interface FilteredMerge {
  /** Under the storage root, or in the folder for intermediate results. */
  readonly store: 'root' | 'scratch';
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly lineage: symbol;
  readonly version: number;
  readonly spec: MergeSpec;
  readonly file: IpcFile;
  readonly timeoutMs: number | undefined;
  readonly principal: string | undefined;
}

/** Runs such merges in another process, with the contract of `Dataset.merge`: native code may die of a filter (P12). */
export interface FilteredMerges {
  /** Settles only when nothing can still commit. */
  merge(merge: FilteredMerge): Promise<MergeCounts>;
}

export interface Scratch {
  create(name: string, file: IpcFile): Promise<Dataset>;
  discard(): Promise<void>;
}

/**
 * Refusals that a caller of this port acts upon: several source rows match one target row; something is stored already
 * where a dataset was to be created.
 */
export type EngineRefusal = 'ambiguous merge' | 'place taken';
export const isRefusal = (error: unknown, refusal: EngineRefusal): boolean =>
  error instanceof LancegateError && error.internal?.refusal === refusal;
