import type { Filtered } from '../../kernel/checked-sql.ts';

export interface MergeSpec {
  /** Top-level columns of the table, exactly as the schema spells them. */
  readonly on: readonly string[];
  readonly whenMatchedUpdateAll: boolean | Filtered;
  readonly whenNotMatchedInsertAll: boolean;
  readonly whenNotMatchedBySourceDelete: boolean | Filtered;
  readonly useIndex: boolean;
}

/** What one step did, and the version that it made. */
export interface MergeCounts {
  readonly version: number;
  readonly numInsertedRows: number;
  readonly numUpdatedRows: number;
  readonly numDeletedRows: number;
}

/** A result column: `expression` is SQL over the dataset's columns. */
export interface Projection {
  readonly name: string;
  readonly expression: string;
}
