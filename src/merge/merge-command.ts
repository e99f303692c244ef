import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { Extender } from '../change/extend-columns.ts';
import type { IdempotencyHeader } from '../idempotency/idempotency.ts';
import type { Filtered } from '../kernel/checked-sql.ts';
import type { ToldOfColumns } from '../kernel/column-changes.ts';
import type { BranchName, TableRef, TransactionId } from '../kernel/ids.ts';
import type { AskedBounds } from '../kernel/write-bounds.ts';
import type { ToldOfRules } from '../table/row-faults.ts';
import type { RuleTexts } from '../table/standing-rules.ts';

export interface MergeFlags {
  /** `true`, or the SQL condition over `target.` and `source.` columns under which a matched row is updated. */
  readonly whenMatchedUpdateAll: boolean | Filtered;
  readonly whenNotMatchedInsertAll: boolean;
  /** `true`, or the SQL condition over the target's columns under which an unmatched target row is deleted. */
  readonly whenNotMatchedBySourceDelete: boolean | Filtered;
}

/** The values of `on_duplicate`. */
export const rowsThatStay = ['refuse', 'first', 'last'] as const;

export interface MergeRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  /** There is at least one, and no two are alike. */
  readonly on: readonly FieldPath[];
  readonly flags: MergeFlags;
  /** false forbids the index; true leaves it to the service. */
  readonly useIndex: boolean;
  /** Those that the request says; the table may have others. */
  readonly rules: RuleTexts;
  readonly source: ArrowSource;
  /** Asked where columns come with the rows. `PermissionDenied`. */
  readonly requireAction: Extender['requireAction'];
  readonly idempotency: IdempotencyHeader | undefined;
  readonly bounds?: AskedBounds | undefined;
}

export interface MergeRowsResult extends ToldOfRules, ToldOfColumns {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly numUpdatedRows: number;
  readonly numInsertedRows: number;
  readonly numDeletedRows: number;
  readonly numAttempts: number;
  /** Nothing was written; the counts are those at `version`. */
  readonly isDryRun?: true;
  /** Rows of the source that were passed over: another one has their key, or the table has a newer one. Only where a rule is for them. */
  readonly numDuplicateRows?: number;
  readonly numStaleRows?: number;
}
