import type { BranchHead } from '../../port/dataset.ts';
import type { VersionColumns } from '../store/branch-mirror.ts';
import type { BranchState } from './branch-state.ts';

/** How an open dataset learns of the newest version of its branch, wherever that is stored. */
export interface HeadWatch {
  /** The newest version when the dataset was opened. */
  readonly opened: BranchState;
  /** The engine's table is opened with the dataset, whose reads are then of one version until it moves. Elsewhere that takes requests. */
  readonly opensAtOnce: boolean;
  /** Another table or branch has taken the place of the one that was opened. */
  readonly isReplaced: boolean;
  /**
   * The newest version, also for a commit (`BranchHead.refresh`); undefined where it is still this one. After a fault the next call
   * looks again.
   */
  look(version: number, ...purpose: Parameters<BranchHead['refresh']>): Promise<BranchState | undefined>;
  /** Whether the manifest of this version can be read from the local folder. */
  knows(version: number): boolean;
  /** The engine's handle has moved to this version by itself. */
  follow(version: number): Promise<void>;
  /** This process has made the version; undefined where the engine did, and has not said which. */
  made(version: number | undefined): void;
  /** Of the newest version, for other datasets of the branch; undefined where they are not known. */
  readonly columns: VersionColumns | undefined;
  keepColumns(columns: VersionColumns): void;
}
