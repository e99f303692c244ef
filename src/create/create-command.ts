import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { IdempotencyHeader } from '../idempotency/idempotency.ts';
import type { Properties, TableRef, TransactionId } from '../kernel/ids.ts';

type CreateMode = 'create' | 'exist_ok' | 'overwrite';

export interface CreateTableCommand {
  readonly table: TableRef;
  readonly mode: CreateMode;
  /** `PermissionDenied`. Called where `exist_ok` finds a table: the answer describes one that another principal may have made. */
  readonly requireDescribe: () => void;
  readonly properties: Properties | undefined;
  readonly storageOptions: Properties;
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
}

export interface CreateTableResult {
  /** undefined if no table was created or replaced, and in replayed answers of earlier releases. */
  readonly numInsertedRows?: number | undefined;
  readonly transactionId: TransactionId | undefined;
  readonly location: string;
  readonly version: number;
  readonly storageOptions: Properties;
  readonly properties: Properties;
}
