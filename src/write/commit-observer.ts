import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { BranchName, Location, TableId, TableRef } from '../kernel/ids.ts';

/** What maintenance needs to know of one commit. All requests of a batch share it. */
export interface Commit {
  readonly table: TableRef;
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  readonly location: Location;
  /** The key columns of the merge. */
  readonly on: readonly FieldPath[];
  /** The version the commit made. */
  readonly version: number;
}

/**
 * Called after each commit: it must neither throw nor take time. The next commit of the same branch is recorded after the call,
 * so the versions of a branch come in their order.
 */
export interface CommitObserver {
  committed(commit: Commit): void;
}
