import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { KeyedRequest, TableRecord } from '../catalog/port.ts';
import type { MergeCounts, MergeSpec } from '../engine/port/merge-spec.ts';
import type { BranchName, TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { Keys } from '../keys/key-columns.ts';
import type { KeyDigests } from '../keys/key-hasher.ts';

/** A merge that was received and checked, and waits for the branch's lock. */
export interface MergeRequest {
  /** As the source was checked against it. */
  readonly table: TableRecord;
  readonly branch: BranchName | undefined;
  /** At least one; all of them are columns of the table and of the source. */
  readonly on: readonly FieldPath[];
  readonly spec: Omit<MergeSpec, 'on'>;
  readonly chunk: IpcChunk;
  /** No key twice, NULL aside. */
  readonly keys: Keys;
  readonly digests: KeyDigests;
  readonly scope: RequestScope;
  readonly transactionId: TransactionId;
  /** Of a request with an `Idempotency-Key`. */
  readonly keyed: KeyedRequest | undefined;
}

/** At least one, and alike in table, branch, key columns and flags. */
export type MergeRequests = readonly [MergeRequest, ...MergeRequest[]];

export const isNested = ({ on }: MergeRequest): boolean => on.some(({ segments }) => segments.length > 1);

/** The key columns of a merge that is not nested. */
export const keyColumnsOf = ({ on }: MergeRequest): readonly string[] => on.map(({ segments }) => segments[0] ?? '');

/** What a transaction record says of a merge. */
export const outcomeOf = (
  counts: Pick<MergeCounts, 'numInsertedRows' | 'numUpdatedRows' | 'numDeletedRows'>,
): Readonly<Record<string, string>> => ({
  num_inserted_rows: String(counts.numInsertedRows),
  num_updated_rows: String(counts.numUpdatedRows),
  num_deleted_rows: String(counts.numDeletedRows),
});
