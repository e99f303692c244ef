import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { IdempotencyHeader } from '../idempotency/idempotency.ts';
import type { BranchName, TableRef, TransactionId } from '../kernel/ids.ts';

export type InsertMode = 'append' | 'overwrite';

export interface InsertRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly mode: InsertMode;
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
}

export interface InsertRowsResult {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly numInsertedRows: number;
}
