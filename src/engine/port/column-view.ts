/** Reading rows, all of a table or some by their addresses. */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { ChangeLimits } from './change-limits.ts';
import type { Projection } from './merge-spec.ts';
import type { RowAddressSql } from './row-address.ts';

export interface RowReads {
  /**
   * Result batches, each a complete IPC file of its own, as large as the engine makes them. At least one, so that the
   * schema is known. It runs in a reader process (`ReaderDied`), which `limits` are for.
   */
  select(columns: readonly Projection[], where: CheckedSql | undefined, limits?: ChangeLimits): AsyncIterable<IpcFile>;
  /**
   * Result batches as those of `select`, in any order. Rows that are not there are passed over. Without `columns` they have all
   * columns, and then their addresses as `_rowid`.
   */
  take(rows: readonly RowAddressSql[], columns?: readonly Projection[]): AsyncIterable<IpcFile>;
}

/** Some columns of all rows of one version. What the engine does with it takes no longer for the other columns of the table. */
export interface ColumnView extends RowReads {
  /** Harmless when repeated. */
  discard(): void;
}

/** The columns of a table. */
export interface TableColumns {
  readonly schema: Schema;
  /** A file of this schema, without rows. */
  readonly file: IpcFile;
}
