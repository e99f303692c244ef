/**
 * The native binding under LanceDB's public classes: the calls that take an Arrow IPC file in a `Buffer` and never decode
 * it in JavaScript (docs/engine-facts.md, "Getting bytes in"). It is not part of LanceDB's public interface, so a new version of
 * the package may change it; the contract suite of the engine port notices.
 */
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, Index, Session } from '@lancedb/lancedb';
import type { CheckedSql } from '../../../kernel/checked-sql.ts';
import { storageUnavailable } from '../../../kernel/errors.ts';
import type { TableStatistics } from '../../port/engine.ts';

export interface NativeMergeBuilder {
  whenMatchedUpdateAll(filter?: CheckedSql): NativeMergeBuilder;
  whenNotMatchedInsertAll(): NativeMergeBuilder;
  whenNotMatchedBySourceDelete(filter?: CheckedSql): NativeMergeBuilder;
  setTimeout(timeoutMs: number): void;
  useIndex(useIndex: boolean): NativeMergeBuilder;
  execute(file: Buffer): Promise<NativeMergeResult>;
}
export interface NativeMergeResult {
  readonly version: number;
  readonly numInsertedRows: number;
  readonly numUpdatedRows: number;
  readonly numDeletedRows: number;
  readonly numAttempts: number;
}
export interface NativeQuery {
  onlyIf(predicate: CheckedSql): void;
  select(columns: [name: string, expression: string][]): void;
  outputSchema(): Promise<Buffer>;
  execute(maxBatchLength?: number): Promise<{ next(): Promise<Buffer | null> }>;
}
export interface NativeBranches {
  list(): Promise<Record<string, { parentBranch?: string | null; parentVersion: number; manifestSize: number }>>;
  create(name: string, fromRef: string | null, fromVersion: number | null): Promise<NativeTable>;
  checkout(name: string, version?: number): Promise<NativeTable>;
  delete(name: string): Promise<void>;
}
export interface NativeTags {
  list(): Promise<Record<string, { version: number }>>;
  create(name: string, version: number): Promise<void>;
  delete(name: string): Promise<void>;
}
export interface NativeTable {
  close(): void;
  schema(): Promise<Buffer>;
  add(file: Buffer, mode: 'append'): Promise<{ version: number }>;
  countRows(filter?: CheckedSql): Promise<number>;
  delete(predicate: CheckedSql): Promise<{ version: number; numDeletedRows: number }>;
  /** Columns are set to SQL expressions over the old row. */
  update(predicate: CheckedSql, columns: [name: string, expression: string][]): Promise<{ version: number }>;
  query(): NativeQuery;
  /** Rows by their addresses, unless the dataset gives them identifiers of their own; those deleted are passed over. */
  takeRowIds(rowIds: bigint[]): Omit<NativeQuery, 'onlyIf'>;
  addColumnsWithSchema(schemaFile: Buffer): Promise<{ version: number }>;
  dropColumns(columns: string[]): Promise<{ version: number }>;
  createIndex(index: unknown, column: string, replace: boolean): Promise<void>;
  stats(): Promise<NativeStats>;
  dropIndex(name: string): Promise<void>;
  listIndices(): Promise<readonly NativeIndex[]>;
  /** Reads all of it into the session's cache; what does not fit there is read in vain. */
  prewarmIndex(name: string): Promise<void>;
  /** Compacts, prunes, then extends indexes. A time of 0 counts as none given, which is seven days ago. */
  optimize(beforeTimestampMs: number, deleteUnverified: boolean): Promise<NativeOptimizeStats>;
  tags(): Promise<NativeTags>;
  version(): Promise<number>;
  checkout(version: number): Promise<void>;
  checkoutLatest(): Promise<void>;
  listVersions(): Promise<{ version: number /** Microseconds since the epoch. */; timestamp: number }[]>;
  branches(): Promise<NativeBranches>;
  mergeInsert(on: readonly string[]): NativeMergeBuilder;
}
export interface NativeIndex {
  readonly name: string;
  readonly indexType: string;
  readonly columns: string[];
  readonly numIndexedRows?: number;
  readonly numUnindexedRows?: number;
  /** As it is stored. */
  readonly sizeBytes?: number;
}
export interface NativeStats {
  readonly totalBytes: number;
  readonly numRows: number;
  readonly numIndices: number;
  readonly fragmentStats: {
    readonly numFragments: number;
    readonly numSmallFragments: number;
    readonly lengths: TableStatistics['fragmentRows'];
  };
}
export interface NativeOptimizeStats {
  readonly compaction: { readonly fragmentsRemoved: number; readonly fragmentsAdded: number };
  readonly prune: { readonly bytesRemoved: number; readonly oldVersionsRemoved: number };
}
export interface NativeConnection {
  createTable(
    name: string,
    file: Buffer,
    mode: 'create',
    namespace: string[],
    options?: Record<string, string>,
  ): Promise<NativeTable>;
  openTable(name: string, namespace: string[]): Promise<NativeTable>;
  dropTable(name: string, namespace: string[]): Promise<void>;
  close(): void;
}

/** `StorageUnavailable` where no temporary folder can be made. */
export function newSession(indexCacheBytes: number, metadataCacheBytes: number): Session {
  requireTemporaryFolder();
  return new Session(BigInt(indexCacheBytes), BigInt(metadataCacheBytes));
}

/** The engine makes one with each session, and ends the whole process where it cannot, as on a full disk. */
function requireTemporaryFolder(): void {
  const within = tmpdir();
  try {
    rmdirSync(mkdtempSync(join(within, 'lancegate-')));
  } catch (error) {
    throw storageUnavailable('no temporary folder can be made (TMPDIR)', error, { within });
  }
}

/** `session` holds the index and metadata caches, shared by all connections and bounded (P7). */
export async function connectNative(
  uri: string,
  storageOptions: Readonly<Record<string, string>>,
  session: Session,
): Promise<NativeConnection> {
  const connection = await connect(uri, { storageOptions: { ...storageOptions }, session });
  return (connection as unknown as { inner: NativeConnection }).inner;
}

/** The native form of a BTREE index: the public class wraps it. */
export const nativeBtree = (): unknown => (Index.btree() as unknown as { inner: unknown }).inner;

/** What the engine calls the index of a column if it is given no name. */
export const plainIndexName = (column: string): string => `${column}_idx`;
