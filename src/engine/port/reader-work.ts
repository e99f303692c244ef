/** Work on datasets of the engine that other processes do: native code may die of it (P12). */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { BranchName, Location } from '../../kernel/ids.ts';
import type { ChangeStep } from './change.ts';
import type { ChangeLimits } from './change-limits.ts';
import type { IndexSpec } from './index-spec.ts';
import type { MergeCounts, Projection } from './merge-spec.ts';
import type { RowAddressSql } from './row-address.ts';

/** A step that evaluates what a client wrote, for a dataset of this engine at its checked-out version. */
export interface ReaderChange extends ChangeLimits {
  /** Where the location is: under the storage root, in a shadow there, or in the folder for intermediate results. */
  readonly store: 'root' | 'shadow' | 'scratch';
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly lineage: string;
  readonly version: number;
  readonly step: ChangeStep;
  readonly file: IpcFile | undefined;
}

/** What of a version is to be read: the fragments, the indexes and the columns that are not those of the version before. */
export interface ToTry {
  readonly fragments: readonly { readonly id: number; readonly rows: number }[];
  readonly indexes: readonly string[];
  readonly columns: readonly string[];
}

/** A version that nobody has read, as the only one of a dataset. */
export interface VersionTrial extends Omit<ReaderChange, 'step' | 'file' | 'lineage'> {
  readonly toTry: ToTry;
}

/** What is read of a dataset: as `Snapshot.take` where there are `rows`, else as `Snapshot.select`. */
export interface RowsToRead extends ChangeLimits {
  readonly columns: readonly Projection[] | undefined;
  readonly where: CheckedSql | undefined;
  readonly rows: readonly RowAddressSql[] | undefined;
}

/** Reads this version; of a dataset that only this service writes to, the newest one. */
export type ReaderReading = RowsToRead & Pick<ReaderChange, 'store' | 'location' | 'branch' | 'version'>;

/** Does in another process what the engine computes for a client: native code may die of it (P12). */
export interface ReaderChanges {
  /** It has the contract of `EngineWrites.change`, and settles only when nothing can still commit. */
  change(change: ReaderChange): Promise<MergeCounts>;
  /** Why the version cannot be read, in words for its writer; undefined where it can. */
  fault(trial: VersionTrial): Promise<string | undefined>;
  /** The caller reads it to the end, or leaves it. */
  read(reading: ReaderReading): AsyncIterable<IpcFile>;
}

/** Who wants an index, and for how long. */
export interface IndexBuildScope {
  /** `principalKey`; undefined for maintenance. */
  readonly principal: string | undefined;
  readonly signal: AbortSignal;
}

/** An index build on a dataset of this engine. */
export interface IndexBuild extends Pick<ReaderChange, 'store' | 'location' | 'branch' | 'version'>, IndexBuildScope {
  readonly spec: IndexSpec;
}

/** What the engine does when it compacts a dataset. Indexes that it has are brought up to date. */
export interface CompactionSpec {
  /** Whether what it wrote is read. */
  readonly isToRead: boolean;
}

export interface CompactionResult {
  /** How many fewer fragments there are. */
  readonly removedFragments: number;
  /** False where it was read, and cannot be. */
  readonly isReadable: boolean;
}

/** A compaction of a dataset of this engine. */
export interface CompactionOrder extends Omit<IndexBuild, 'spec' | 'principal'> {
  readonly spec: CompactionSpec;
}

/** Does in another process, for maintenance and for clients, what takes long: native code may die of it (P12). */
export interface Builds {
  /** With the contract of `EngineWrites.buildIndex`. Settles only when the process has answered or ended. Rejects with the reason of the signal. */
  build(build: IndexBuild): Promise<void>;
  /** As `build`, with the contract of `Upkeep.compact`. */
  compact(compaction: CompactionOrder): Promise<CompactionResult>;
}
