import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { IpcChunk } from '../arrow/schema/ipc-chunk.ts';
import type { KeyedAnswer, KeyedCommit, TransactionRecord } from '../catalog/port.ts';
import type { MergeCounts, MergeSpec } from '../engine/port/engine.ts';
import type { BranchName, Location, TableId, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { Keys } from '../keys/key-columns.ts';
import type { KeyDigests } from '../keys/key-hasher.ts';

/** A merge that has been received and checked, and waits for its turn. */
export interface MergeRequest {
  readonly table: TableRef;
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  /** At least one; all of them are columns of the table and of the source. */
  readonly on: readonly FieldPath[];
  readonly spec: Omit<MergeSpec, 'on'>;
  readonly chunk: IpcChunk;
  /** No key twice, NULL aside. */
  readonly keys: Keys;
  readonly digests: KeyDigests;
  readonly scope: RequestScope;
  /** Where the table is now. Asked under the turn; throws where it was dropped or replaced since it was checked against. */
  readonly locate: () => Promise<Location>;
  /** How the commit is to be remembered. */
  readonly record: (counts: MergeCounts) => TransactionRecord;
  readonly keyed: KeyedMerge | undefined;
}

/** What the catalog is to know of a request with an `Idempotency-Key`: before its commit starts, and with its record. */
export interface KeyedMerge {
  readonly announce: (baseVersion: number) => KeyedCommit;
  readonly answer: (counts: MergeCounts) => KeyedAnswer;
}

export const isNested = ({ on }: MergeRequest): boolean => on.some(({ segments }) => segments.length > 1);

/** The key columns of a merge that is not nested. */
export const keyColumnsOf = ({ on }: MergeRequest): readonly string[] => on.map(({ segments }) => segments[0] ?? '');
