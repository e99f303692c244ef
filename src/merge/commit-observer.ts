import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { BranchName, Location, TableId, TableRef } from '../kernel/ids.ts';

/** What one commit of the table writer was, for those who look after tables. Shared by all requests of a group. */
export interface Commit {
  readonly table: TableRef;
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  readonly location: Location;
  /** The key columns of the merge. */
  readonly on: readonly FieldPath[];
  /** Matching, writing, committing; no waiting. Syncing only where rows were replaced by their places: it is half of it. */
  readonly engineMs: number;
  /** Rows were replaced by their places, so no index was asked for them. */
  readonly isPlaced: boolean;
  /** So many fragments had a part in what it took, at the most: one for each row replaced by its place, else all there are. */
  readonly mostFragments: number;
  /** An index over all rows would have been the faster way, whether or not there is one. */
  readonly gainsByIndex: boolean;
  /** The version the commit made. */
  readonly version: number;
}

/**
 * Called after each commit: it must neither throw nor take time. The next commit of the same branch begins after the call,
 * which is how observers know that a version is younger than the call before it.
 */
export interface CommitObserver {
  committed(commit: Commit): void;
}
