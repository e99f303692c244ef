/** A branch of a dataset, and the small interfaces that make it up. */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { BranchName, Properties } from '../../kernel/ids.ts';
import type { RowAddress } from '../../keys/address-remap.ts';
import type { ChangeStep, ManifestChange } from './change.ts';
import type { ChangeLimits } from './change-limits.ts';
import type { ColumnView, RowReads, TableColumns } from './column-view.ts';
import type { IndexSpec } from './index-spec.ts';
import type { Indexed } from './indexes.ts';
import type { MergeCounts } from './merge-spec.ts';
import type { RowQueries } from './query-spec.ts';
import type { ToTry } from './reader-work.ts';
import type {
  LiveRows,
  NewRows,
  PreparedRows,
  ReplaceOptions,
  Replacing,
  RowAddressSql,
  StagedSource,
} from './row-address.ts';
import type { Shadow } from './shadow.ts';
import type { Tagged } from './stored-tags.ts';
import type { Upkeep } from './upkeep.ts';

export interface StoredBranch {
  readonly name: BranchName;
  /** undefined is main. */
  readonly parentBranch: BranchName | undefined;
  readonly parentVersion: number;
  readonly createdAtSeconds: number;
  readonly manifestBytes: number;
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
  /** The manifest, relative to the location of the dataset. */
  readonly manifestPath: string;
  readonly manifestBytes: number;
  /** The tag that an object store gives to the manifest. */
  readonly manifestTag?: string;
}

/** Who made a version, and what that program noted of it. */
export interface StoredTransaction {
  readonly id: string;
  readonly properties: Readonly<Record<string, string>>;
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

/** One version of a branch. If it was opened at its newest version, reads move along with that. */
export interface Snapshot extends RowReads {
  /** What is known of a version holds for every dataset of this lineage: it is the same branch of the same table. */
  readonly lineage: string;
  version(): Promise<number>;
  schema(): Promise<Schema>;
  columns(): Promise<TableColumns>;
  countRows(filter?: CheckedSql): Promise<number>;
  /** The manifest alone says it. */
  statistics(): Promise<TableStatistics>;
  close(): void;
}

export interface VersionFaults {
  /** Why this version cannot be read; undefined where it can. Throws what reads of it would, and native code may die of it (P12). */
  fault(toTry: ToTry): Promise<string | undefined>;
}

/** The newest version of a branch. */
export interface BranchHead {
  /**
   * Moves to the newest version. `to write`: what is kept of the branch may do, since the commit fails where it is not the newest; then
   * the next refresh looks. On a file system both look. `replaced`: another table or branch is in its place, which has to be opened
   * anew; this one stays as it was.
   */
  refresh(purpose?: 'to read' | 'to write'): Promise<'replaced' | undefined>;
  /**
   * Resolves once this version would survive a power cut (P3), and with it those after `after`, the newest that is known to be
   * durable; by default, those since the last call or since the dataset was opened. To be called after a commit and before it
   * is acknowledged. Making or deleting a branch syncs by itself. Once a sync has failed, what was written may be lost although
   * it can be read, and every sync fails until the next start.
   */
  sync(after?: number): Promise<void>;
}

/**
 * The commits that follow the newest version of a branch: by row address, or in a shadow. `properties` are what the transaction says
 * besides, for `transactionOf`; those that the engine makes do not say it.
 */
export interface HeadCommits {
  /**
   * For changes by the engine, at this version. Without the branch's lock from then on until `commit`, that may be `overtaken`.
   */
  shadow(): Promise<Shadow>;
  /** The live rows, for `replaceRows`; undefined where rows cannot be replaced by their addresses. */
  liveRows(): LiveRows | undefined;
  /** Begins to write rows for `replaceRows`, which throws what fails. */
  prepareRows(rows: NewRows): PreparedRows;
  /**
   * Commits one version without the rows at `addresses` and with those of the file, all or nothing. The dataset must be at the
   * version of `tracked`, which is at the new one afterwards; or `tracked` at the version that the turn follows. Without rows, some
   * are only deleted.
   */
  replaceRows(
    tracked: LiveRows,
    addresses: Iterable<RowAddress>,
    rows: NewRows | undefined,
    options?: ReplaceOptions,
  ): Promise<Replacing>;
  /**
   * For `insertRows` of any number of rows. `columns`: a file without rows, whose columns the rows get as the engine fits them.
   * Nothing is written before the first `append`. undefined where there can be none.
   */
  stageSource(columns: IpcFile | undefined): StagedSource | undefined;
  /**
   * Commits one version with these rows and all that the head has, as `replaceRows`. No key is looked at. `overwrite`, of a staged source:
   * the version has these rows and these columns only, and no index.
   */
  insertRows(
    rows: PreparedRows | StagedSource,
    mode: 'append' | 'overwrite',
    properties?: Properties,
  ): Promise<Replacing>;
  /**
   * Commits one version. `overtaken`: another program has committed since the dataset was refreshed, and nothing is written.
   * `TableVersionNotFound` where there is no version to restore; `Unsupported` where neither this service nor the engine can
   * make the change.
   */
  commitManifest(
    change: ManifestChange,
    limits?: ChangeLimits,
    properties?: Properties,
  ): Promise<{ readonly version: number } | 'overtaken'>;
}

/** Rows of one fragment, by their offsets in it, ascending; undefined for the first `count`. */
export interface RowsOfFragment {
  readonly fragment: number;
  readonly count: number;
  readonly offsets: Uint32Array | undefined;
}

/** Which rows differ between two versions. A row that was only moved, as by a compaction, is not among them. */
export interface RowsBetween {
  /** They are in the earlier version and not in the later one. */
  readonly removed: readonly RowsOfFragment[];
  /** The reverse, with the version that brought them. */
  readonly added: readonly (RowsOfFragment & { readonly version: number })[];
}

/** What earlier commits did, and left. */
export interface History {
  /** The table configuration of a version; undefined where that is not there. */
  settingsOf(version: number): Promise<Properties | undefined>;
  /**
   * The addresses of the rows that the commit of `version` removed, updated ones included; or of those it added, in new
   * fragments. Reads two manifests and deletion vectors; undefined where that is not possible.
   */
  changedRows(version: number, change: 'removed' | 'added'): Promise<readonly RowAddressSql[] | undefined>;
  /**
   * Which rows differ between version `after`, 0 for no rows at all, and version `until`, by the manifests of both and of those in
   * between. Where one of these is missing, or does not say where rows went, rows that were written again count as removed and added.
   * undefined where the files of the two are not there.
   */
  rowsBetween(after: number, until: number): Promise<RowsBetween | undefined>;
  /** These columns, by their names, as they are at `version`; undefined where there can be no view. */
  view(version: number, columns: readonly string[], limits: ChangeLimits): Promise<ColumnView | undefined>;
  /** The versions of one page, in its order. */
  versionPage(page: VersionPage): Promise<readonly StoredVersion[]>;
  /** Reads that of the commit that made a version; undefined where the version is not there, or does not say. */
  transactionOf(version: number): Promise<StoredTransaction | undefined>;
  /** Whether a version is there with all that it names. A crash in the middle of its removal leaves it listed. */
  isWhole(version: number): Promise<boolean>;
}

/** The branches of a dataset, the same by whichever of them. */
export interface Branches {
  /** `confirm`: as that of `delete`, for what is left of a branch that could not be made. */
  create(
    name: BranchName,
    from: { branch: BranchName | undefined; version: number | undefined },
    confirm?: () => Promise<void>,
  ): Promise<void>;
  list(): Promise<readonly StoredBranch[]>;
  /** `confirm`: awaited directly before, as that of `PruneRequest`. */
  delete(name: BranchName, confirm?: () => Promise<void>): Promise<void>;
}

export interface Branched {
  readonly branches: Branches;
}

/** Commits that the engine makes by itself: in a shadow, which a reader opens as a dataset, and where there can be no shadow. */
export interface EngineWrites {
  /**
   * Commits one version, or nothing; `file` is given where the step has one. Past its time it throws `TimedOut`, also in the middle of
   * its commit, which may be there then or in a moment. The same holds for `ReaderDied`, if a reader ran the step.
   */
  change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeCounts>;
  /** Builds an index in place of the one of this name, and commits it. */
  buildIndex(spec: IndexSpec): Promise<void>;
}

/**
 * A branch of a dataset, open at a version. Commits move it to the one they made. What uses one takes those of these interfaces
 * that it needs.
 */
export interface Dataset
  extends Snapshot,
    VersionFaults,
    RowQueries,
    BranchHead,
    HeadCommits,
    History,
    Upkeep,
    Branched,
    Tagged,
    Indexed,
    EngineWrites {}
