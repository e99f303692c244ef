/** What a dataset has besides the engine's table. */
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { BranchName } from '../../../kernel/ids.ts';
import type { MergeCounts } from '../../port/merge-spec.ts';
import type {
  CompactionOrder,
  CompactionResult,
  IndexBuild,
  ReaderChange,
  ReaderReading,
} from '../../port/reader-work.ts';
import type { CommitLoop } from '../commit/commit-loop.ts';
import type { ManifestCommit } from '../commit/manifest-commit.ts';
import type { PreparationParts } from '../commit/prepared-commits.ts';
import type { RowReplacement } from '../commit/row-replacement.ts';
import type { NativeTable } from '../native/native.ts';
import type { BranchShadows } from '../shadow/branch-shadows.ts';
import type { BranchStorage } from '../storage/branch-storage.ts';
import type { IndexChoice } from './index-choice.ts';

type OfDataset = 'store' | 'location' | 'branch';

/** Runs in a reader what clients wrote. */
export type ReaderOfDataset = (change: Omit<ReaderChange, OfDataset>) => Promise<MergeCounts>;

/** What makes the commits of a branch. */
export interface OwnCommits {
  readonly replacement: RowReplacement;
  readonly manifestCommit: ManifestCommit;
  readonly shadows: BranchShadows;
  readonly indexChoice: IndexChoice;
  readonly preparation: PreparationParts;
  readonly loop: CommitLoop;
}

/** Builds in a process of its own, of the dataset itself. */
export interface DatasetBuilds {
  build(build: Omit<IndexBuild, OfDataset>): Promise<void>;
  compact(compaction: Omit<CompactionOrder, OfDataset>): Promise<CompactionResult>;
}

/**
 * To be called before native code reads a version that may not have been looked at. Throws `UnboundedColumns`, and `TableVersionNotFound`
 * for one that nothing can read. By default the newest.
 */
export type RequireReadable = (branch: BranchName | undefined, version?: number) => Promise<void>;

export interface Surroundings {
  readonly requireReadable?: RequireReadable | undefined;
  readonly changeInReader?: ReaderOfDataset | undefined;
  /** A reader has none: `select` runs there. */
  readonly readInReader?: ((rows: Omit<ReaderReading, OfDataset>) => AsyncIterable<IpcFile>) | undefined;
  readonly builds?: DatasetBuilds | undefined;
  /** undefined is main. */
  readonly branch?: BranchName | undefined;
  /** Opens the newest version of the branch once more. */
  readonly openNewest?: (() => Promise<NativeTable>) | undefined;
  /** Without it what is written counts as durable at once. */
  readonly storage?: BranchStorage | undefined;
  /** Without them the engine makes all commits. */
  readonly commits?: OwnCommits | undefined;
  /** A branch of the dataset is gone. */
  readonly onBranchDeleted?: ((branch: BranchName) => void) | undefined;
}
