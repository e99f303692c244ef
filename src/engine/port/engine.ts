/**
 * The engine as the other rooms see it: datasets of Lance at locations under one storage root. It stores and matches; it does not
 * lock, check sources or know names of tables. Its caller holds the branch's lock wherever a method commits (P2: the engine
 * duplicates keys when two merges run at once).
 *
 * Every method of this folder throws `LancegateError` only. An error of the caller's making is `InvalidInput`,
 * `TableSchemaValidationError` or `TableBranchNotFound`, in our words; anything else is `Internal` with the engine's
 * text in `internal`, for the log alone.
 */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { BranchName, Location, Properties, TableId } from '../../kernel/ids.ts';
import type { Spelling } from '../../kernel/spelling.ts';
import type { ProposedManifest } from './change.ts';
import type { ChangeLimits } from './change-limits.ts';
import type { Dataset, EngineWrites, Snapshot } from './dataset.ts';

/** The space of the file system that holds the tables. */
export interface Space {
  /** How much this service can still write. */
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeFiles: number;
  /** 0 where it has no bound to them. */
  readonly totalFiles: number;
}

export interface ResolvedLocation {
  readonly location: Location;
  /** How the file system compares the names in it. */
  readonly spelling: Spelling;
}

/** It knows where datasets are, all under one root. */
export interface Locations {
  /** undefined on object stores. */
  space(): Promise<Space | undefined>;
  /** Removes every file of the location. Harmless when repeated. `confirm`: awaited directly before, as that of `PruneRequest`. */
  remove(location: Location, confirm?: () => Promise<void>): Promise<void>;
  /**
   * Takes the files of a dropped table out of the folders in which other programs look for tables, where the storage can move them, and
   * returns where they are by then. Harmless when repeated.
   */
  setAside(location: Location, table: TableId): Promise<Location>;
  /** Undoes it. Harmless when repeated. `InvalidTableState` where something else is stored at the location by now. */
  bringBack(location: Location, table: TableId): Promise<void>;
  /** False as soon as anything at all is stored at the location. */
  isVacant(location: Location): Promise<boolean>;
  /** What a reader with access to the storage opens. */
  uriOf(location: Location): string;
  /**
   * How the programs of Lance name a file among themselves: from the root of the file system or of the bucket, without a slash before
   * it. `path`: relative to the location.
   */
  objectPathOf(location: Location, path: string): string;
  /** The location of a path or URI under the root, or `InvalidInput`: by its text alone, whatever is stored (P9). */
  locationOf(pathOrUri: string, parameter?: string): Location;
  /**
   * Answers where the files of a location really are, links resolved: undefined if nothing is stored there, or if that is
   * outside the root or inside a dataset.
   */
  resolve(location: Location): Promise<ResolvedLocation | undefined>;
}

export interface OpenRequest {
  readonly location: Location;
  readonly branch?: BranchName | undefined;
  readonly version?: number | undefined;
  /** Only this service writes to it, and knows that its files are there: nothing of it is checked. */
  readonly isPrivate?: boolean | undefined;
}

export interface ClonedVersion {
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly version: number;
}

/**
 * A table that cannot be seen before `commit`, which makes it version 1 of its location, whatever number of appends it took. To be
 * ended by `commit` or `discard`.
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

export interface Scratch {
  /** Its rows have the ids 0, 1 and so on, in their order, which a merge leaves as they are. */
  create(name: string, file: IpcFile): Promise<Snapshot & EngineWrites>;
  discard(): Promise<void>;
}

/** The datasets at these locations. */
export interface Datasets {
  newTable(location: Location, storageOptions: Properties): Promise<StagedTable>;
  /**
   * Makes one version of a dataset the only one of a new location, which then shares no file name with it: nothing that happens to
   * the one touches the other. Durable when it resolves (P3); what fails leaves files at `to`. The caller keeps the version from
   * being pruned. `TableVersionNotFound`; `Unsupported` for tables with features that cannot be carried over.
   */
  clone(from: ClonedVersion, to: Location): Promise<void>;
  /** What a program proposes as version 1, where nothing is; durable when it resolves (P3). False where another program made it. */
  makeFirst(location: Location, proposed: ProposedManifest, limits: ChangeLimits): Promise<boolean>;
  /** `TableNotFound`, `TableBranchNotFound`, `TableVersionNotFound`. */
  open(request: OpenRequest): Promise<Dataset>;
  /** A private folder for intermediate results; gone with `discard`. */
  scratch(): Promise<Scratch>;
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

/** What the end of a writer leaves behind. */
export interface BranchRecovery {
  /** Names the time during which nothing written is lost even if it was not synced. A power cut ends it. */
  readonly storageSession: string;
  /** Undoes what a branch has of commits that were cut short (P1). Meanwhile nothing else may use the dataset. */
  recover(request: RecoverRequest): Promise<Recovery>;
  /** A listing finds it; 0 where there is none. */
  newestVersion(branch: Pick<RecoverRequest, 'location' | 'branch'>): Promise<number>;
}

/** As with `Dataset`: what uses it takes those of these interfaces that it needs. */
export interface Engine extends Locations, Datasets, BranchRecovery {}
