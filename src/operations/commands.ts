/**
 * What the operations are asked and what they answer: typed, validated, free of HTTP. `wire/` makes the commands,
 * `http/` renders the results. Optional means `undefined`, never `null`.
 */
import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { Schema } from '../arrow/schema/schema.ts';
import type { ArrowSource } from '../arrow/stream/source.ts';
import type { CheckedSql, Filtered } from '../kernel/checked-sql.ts';
import type {
  BranchName,
  IdempotencyKey,
  NamespacePath,
  ObjectName,
  Properties,
  TableRef,
  TransactionId,
} from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { JobReport } from '../maintenance/job.ts';

export type CreateMode = 'create' | 'exist_ok' | 'overwrite';

/** What came with an `Idempotency-Key`. */
export interface IdempotencyHeader {
  readonly key: IdempotencyKey;
  /** The SHA-256 of the whole body in hexadecimal; reads what nobody has read of it. Once only. */
  readonly bodyDigest: () => Promise<string>;
}
/** `isReplay`: what an earlier request with this key was answered; this one did nothing. */
export type Replayable<Result> = Result & { readonly isReplay: boolean };

export interface CreateTableCommand {
  readonly table: TableRef;
  readonly mode: CreateMode;
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

export interface MergeFlags {
  /** `true`, or the SQL condition over `target.` and `source.` columns under which a matched row is updated. */
  readonly whenMatchedUpdateAll: boolean | Filtered;
  readonly whenNotMatchedInsertAll: boolean;
  /** `true`, or the SQL condition over the target's columns under which an unmatched target row is deleted. */
  readonly whenNotMatchedBySourceDelete: boolean | Filtered;
}
export interface MergeRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  /** At least one; no two alike. */
  readonly on: readonly FieldPath[];
  readonly flags: MergeFlags;
  /** false forbids the index; true leaves it to the service. */
  readonly useIndex: boolean;
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
}
export interface MergeRowsResult {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly numUpdatedRows: number;
  readonly numInsertedRows: number;
  readonly numDeletedRows: number;
  readonly numAttempts: number;
}

export interface Page {
  readonly after: string | undefined;
  readonly limit: number;
}
export interface Listing<Item> {
  readonly items: readonly Item[];
  /** Where the next page starts; undefined at the end. */
  readonly next: string | undefined;
}

export interface TableDescription {
  readonly table: TableRef;
  readonly location: string;
  readonly properties: Properties;
  readonly storageOptions: Properties;
  /** Absent for a table that is only declared. */
  readonly created: { readonly version: number; readonly schema: Schema } | undefined;
}

export interface BranchDescription {
  readonly name: BranchName;
  /** Undefined for main. */
  readonly parentBranch: BranchName | undefined;
  readonly parentVersion: number;
  readonly createdAtSeconds: number;
  readonly manifestBytes: number;
}

export interface TransactionDescription {
  readonly id: TransactionId;
  readonly status: 'SUCCEEDED';
  readonly properties: Properties;
}

/** What one job of `maintainTable` did and cost. */
export type MaintenanceJob = JobReport;

/** Decides whether one listed object may be seen by who asked; made by `http/` from the policy. */
export type Visible<Item> = (item: Item) => boolean;

/** An owner of a place on storage: a table that has it or had it, or the namespace whose folder holds it. */
export type PlaceOwner = { readonly table: TableRef } | { readonly namespace: NamespacePath };

/** Every use case, as `http/` calls it. Each throws `LancegateError` only; anything else is a defect. */
export interface Operations {
  createTable(command: CreateTableCommand, scope: RequestScope): Promise<Replayable<CreateTableResult>>;
  mergeRows(command: MergeRowsCommand, scope: RequestScope): Promise<Replayable<MergeRowsResult>>;

  declareTable(command: {
    table: TableRef;
    properties: Properties;
    location: string | undefined;
  }): Promise<TableDescription>;
  describeTable(command: {
    table: TableRef;
    branch: BranchName | undefined;
    version: number | undefined;
  }): Promise<TableDescription>;
  /** Resolves for a table that exists, declared-only ones included (if `version` is undefined); else `TableNotFound`. */
  tableExists(command: { table: TableRef; version: number | undefined }): Promise<void>;
  dropTable(command: { table: TableRef }): Promise<TableDescription>;
  deregisterTable(command: { table: TableRef }): Promise<TableDescription>;
  /**
   * `location` is a path relative to the storage root or a URI inside it; `mode` overwrite re-points an existing table.
   * `mayAdopt` is called for each owner of the place. If one refuses: `PermissionDenied` for an owner that the location itself
   * shows, else the same `InvalidInput` as for an empty place.
   */
  registerTable(command: {
    table: TableRef;
    location: string;
    mode: 'create' | 'overwrite';
    properties: Properties;
    mayAdopt: Visible<PlaceOwner>;
  }): Promise<TableDescription>;
  countRows(
    command: {
      table: TableRef;
      branch: BranchName | undefined;
      version: number | undefined;
      predicate: CheckedSql | undefined;
    },
    scope: RequestScope,
  ): Promise<number>;
  listTables(command: {
    namespace: NamespacePath;
    page: Page;
    includeDeclared: boolean;
    visible: Visible<TableRef>;
  }): Promise<Listing<ObjectName>>;
  listAllTables(command: {
    page: Page;
    includeDeclared: boolean;
    visible: Visible<TableRef>;
  }): Promise<Listing<TableRef>>;

  createBranch(command: {
    table: TableRef;
    name: BranchName;
    fromBranch: BranchName | undefined;
    fromVersion: number | undefined;
  }): Promise<void>;
  /** A parent that is not visible is not named. */
  listBranches(command: {
    table: TableRef;
    page: Page;
    visible: Visible<BranchName>;
  }): Promise<Listing<BranchDescription>>;
  deleteBranch(command: { table: TableRef; name: BranchName }): Promise<void>;

  /** `exist_ok` answers the existing properties; `overwrite` replaces them and keeps what is inside. */
  createNamespace(command: { namespace: NamespacePath; mode: CreateMode; properties: Properties }): Promise<Properties>;
  describeNamespace(command: { namespace: NamespacePath }): Promise<Properties>;
  namespaceExists(command: { namespace: NamespacePath }): Promise<void>;
  listNamespaces(command: {
    parent: NamespacePath;
    page: Page;
    visible: Visible<NamespacePath>;
  }): Promise<Listing<ObjectName>>;
  /**
   * `skip` makes a missing namespace no error. With `cascade`, `mayDrop` is asked for every table and namespace inside
   * before anything is dropped, and one refusal refuses the whole with `PermissionDenied`. `dropped` hears of each table that
   * is gone, also where a later one cannot be dropped.
   */
  dropNamespace(command: {
    namespace: NamespacePath;
    mode: 'fail' | 'skip';
    behavior: 'restrict' | 'cascade';
    mayDrop: Visible<{ table: TableRef } | { namespace: NamespacePath }>;
    dropped: (table: TableRef) => void;
  }): Promise<void>;

  /** Puts fragments together, prunes and indexes now; what was done, job by job. */
  maintainTable(command: { table: TableRef }): Promise<readonly MaintenanceJob[]>;
  /** `TransactionNotFound`, also for one that is not visible. */
  describeTransaction(command: {
    id: TransactionId;
    visible: Visible<{ table: TableRef; branch: BranchName | undefined }>;
  }): Promise<TransactionDescription>;
}
