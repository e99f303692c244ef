import type { BranchName, Location, TableId, TableRef } from '../kernel/ids.ts';
import type { Extent } from './decide/estimate.ts';
import type { OptimizeReason } from './decide/policy.ts';

export interface BranchRef {
  readonly table: TableRef;
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  readonly location: Location;
}

export interface OptimizeJob {
  readonly target: BranchRef;
  readonly reason: OptimizeReason;
  readonly extent: Extent;
  /** Those of `small`. */
  readonly fragments?: readonly number[];
  /** Versions committed before it are superseded for long enough. 0 removes none, as do `new` and `small`. */
  readonly pruneBeforeMs: number;
  /**
   * Called while writers are still kept out; not where nothing was put together. `isBeside`: what was committed since the job
   * began is not in it.
   */
  readonly onRewritten: (isBeside: boolean) => void;
  /**
   * Called when all is done but the removal of versions, which takes seconds where many are kept: other jobs may go on beside
   * it. Not where the call comes to indexes of somebody else after it, or where it has nothing to put together.
   */
  readonly onOnlyPruning: (indexed: readonly string[]) => void;
}

/** What one job did and what it cost; the same goes to the log and to who asked for it by hand. */
export type JobReport = OptimizeReport | IndexReport | PruneReport;

export interface OptimizeReport {
  readonly job: 'optimize';
  readonly branch: BranchName | undefined;
  readonly reason: OptimizeReason;
  readonly extent: Extent;
  /** How long writers were kept out. */
  readonly heldMs: number;
  readonly durationMs: number;
  readonly removedFragments: number;
  readonly removedVersions: number;
  readonly removedBytes: number;
  /** A tag keeps versions that would have been removed otherwise. */
  readonly isHeldByTag: boolean;
  /** Columns whose index was built anew. */
  readonly indexed: readonly string[];
  /** One of them has no room in memory, so merges read it from storage. */
  readonly isIndexTooLarge: boolean;
}

export interface IndexReport {
  readonly job: 'index';
  readonly branch: BranchName | undefined;
  /** `slower`: rows that it does not cover. */
  readonly reason: 'merges on the column' | 'slower';
  readonly column: string;
  readonly rows: number;
  /** It has no room in memory, so merges read it from storage. */
  readonly isIndexTooLarge: boolean;
  readonly durationMs: number;
}

/** The removal of old versions alone, where there is no space to compact first. */
export interface PruneReport {
  readonly job: 'prune';
  readonly branch: BranchName | undefined;
  readonly reason: 'little room';
  readonly removedVersions: number;
  readonly removedBytes: number;
  readonly durationMs: number;
}
