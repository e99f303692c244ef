/**
 * The native binding under LanceDB's public classes: the calls that take an Arrow IPC file in a `Buffer` and never decode
 * it in JavaScript (docs/engine-facts.md, "Getting bytes in"), as far as this service needs them. It is not part of LanceDB's
 * public interface, so a new version of the package may change it; the contract suite of the engine port notices.
 */
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, Session } from '@lancedb/lancedb';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import type { CheckedSql } from '../../../kernel/checked-sql.ts';
import { LancegateError, storageUnavailable } from '../../../kernel/errors.ts';
import type { TableStatistics } from '../../port/dataset.ts';
import type { MergeCounts, Projection } from '../../port/merge-spec.ts';
import type { RowsToRead } from '../../port/reader-work.ts';
import type { NativeQuery, Plannable } from './native-query.ts';
import { engineCall } from './translate-errors.ts';

interface NativeMergeBuilder {
  whenMatchedUpdateAll(filter?: CheckedSql): NativeMergeBuilder;
  whenNotMatchedInsertAll(): NativeMergeBuilder;
  whenNotMatchedBySourceDelete(filter?: CheckedSql): NativeMergeBuilder;
  setTimeout(timeoutMs: number): void;
  useIndex(useIndex: boolean): NativeMergeBuilder;
  execute(file: Buffer): Promise<MergeCounts>;
}
export interface NativeBranches {
  list(): Promise<Record<string, { parentBranch?: string | null; parentVersion: number; manifestSize: number }>>;
  create(name: string, fromRef: string | null, fromVersion: number | null): Promise<NativeTable>;
  checkout(name: string, version?: number): Promise<NativeTable>;
  delete(name: string): Promise<void>;
}
export interface NativeTable {
  close(): void;
  schema(): Promise<IpcFile>;
  add(file: Buffer, mode: 'append' | 'overwrite'): Promise<{ version: number }>;
  countRows(filter?: CheckedSql): Promise<number>;
  delete(predicate: CheckedSql): Promise<{ version: number; numDeletedRows: number }>;
  update(where: CheckedSql | undefined, set: [column: string, value: string][]): Promise<NativeUpdate>;
  addColumns(columns: { name: string; valueSql: CheckedSql }[]): Promise<{ version: number }>;
  addColumnsWithSchema(file: Buffer): Promise<{ version: number }>;
  alterColumns(alterations: NativeColumnChange[]): Promise<{ version: number }>;
  dropColumns(columns: string[]): Promise<{ version: number }>;
  updateFieldMetadata(updates: NativeFieldMetadata[]): Promise<{ version: number }>;
  dropIndex(name: string): Promise<void>;
  query(): NativeQuery;
  takeOffsets(offsets: number[]): Plannable;
  /** Rows by their addresses, unless the dataset gives them identifiers of their own; those deleted are passed over. */
  takeRowIds(rowIds: bigint[]): Omit<NativeQuery, 'onlyIf'>;
  createIndex(index: unknown, column: string, replace: boolean, waitSeconds: undefined, name: string): Promise<void>;
  stats(): Promise<NativeStats>;
  listIndices(): Promise<readonly NativeIndex[]>;
  indexStats(name: string): Promise<NativeIndexStatistics | null>;
  /** Compacts, prunes, then extends indexes. A time of 0 counts as none given, which is seven days ago. */
  optimize(
    beforeTimestampMs: number,
    deleteUnverified: boolean,
  ): Promise<{ readonly compaction: { readonly fragmentsRemoved: number; readonly fragmentsAdded: number } }>;
  version(): Promise<number>;
  checkout(version: number): Promise<void>;
  checkoutLatest(): Promise<void>;
  /** Commits a version with all that the one checked out has. */
  restore(): Promise<void>;
  listVersions(): Promise<{ version: number /** Microseconds since 1970 (UTC). */; timestamp: number }[]>;
  branches(): Promise<NativeBranches>;
  mergeInsert(on: readonly string[]): NativeMergeBuilder;
}
interface NativeUpdate {
  readonly version: number;
  readonly rowsUpdated: number;
}
interface NativeColumnChange {
  readonly path: string;
  readonly rename: string | undefined;
  readonly nullable: boolean | undefined;
  readonly dataType: string | undefined;
}
interface NativeFieldMetadata {
  readonly path: string;
  readonly metadata: Readonly<Record<string, string | null>>;
  readonly replace: boolean;
}
export interface NativeIndex {
  readonly name: string;
  readonly indexType: string;
  readonly columns: string[];
  readonly numIndexedRows?: number;
  readonly numUnindexedRows?: number;
  /** It has this size as it is stored. */
  readonly sizeBytes?: number;
  readonly indexUuid?: string;
  readonly typeUrl?: string;
  readonly createdAt?: Date;
  readonly numSegments?: number;
  readonly indexVersion?: number;
  /** What it was built with, as the engine's JSON of its kind. */
  readonly indexDetails?: unknown;
}
interface NativeIndexStatistics {
  readonly numIndexedRows: number;
  readonly numUnindexedRows: number;
  readonly indexType: string;
  readonly distanceType?: string;
  readonly numIndices?: number;
}
interface NativeStats {
  readonly totalBytes: number;
  readonly numRows: number;
  readonly numIndices: number;
  readonly fragmentStats: {
    readonly numFragments: number;
    readonly numSmallFragments: number;
    readonly lengths: TableStatistics['fragmentRows'];
  };
}
export interface NativeConnection {
  createTable(
    name: string,
    file: Buffer,
    mode: 'create',
    namespace: string[],
    options?: Record<string, string>,
  ): Promise<NativeTable>;
  openTable(name: string, namespace: string[], options?: Record<string, string>): Promise<NativeTable>;
  close(): void;
}

/** `StorageUnavailable` where no temporary folder can be made. */
export function newSession(indexCacheBytes: number, metadataCacheBytes: number): Session {
  requireTemporaryFolder();
  return new Session(BigInt(indexCacheBytes), BigInt(metadataCacheBytes));
}

/** The engine makes one with each session, and ends the whole process where it cannot, as on a full disk. */
export function requireTemporaryFolder(): void {
  const within = tmpdir();
  try {
    rmdirSync(mkdtempSync(join(within, 'lancegate-')));
  } catch (error) {
    throw storageUnavailable('no temporary folder can be made (TMPDIR)', error, { within });
  }
}

/**
 * `session` holds the index and metadata caches, shared by all connections and bounded (P7). A table is opened with the options, too: the
 * engine reaches files under its base paths with those of the table alone. Only tables of a worker compute.
 */
export async function connectNative(
  uri: string,
  storageOptions: Readonly<Record<string, string>>,
  session: Session,
  isForWorker: boolean,
): Promise<NativeConnection> {
  const connection = await connect(uri, { storageOptions: { ...storageOptions }, session });
  const { inner } = connection as unknown as { inner: NativeConnection };
  const limited = (table: NativeTable) => (isForWorker ? table : withoutComputing(table));
  return {
    createTable: async (...args) => limited(await inner.createTable(...args)),
    openTable: async (name, namespace) => limited(await inner.openTable(name, namespace, { ...storageOptions })),
    close: () => inner.close(),
  };
}

/** What computes. */
const computing = [
  ...(['update', 'delete', 'mergeInsert', 'query', 'takeOffsets', 'createIndex', 'optimize'] as const),
  ...(['addColumns', 'addColumnsWithSchema', 'alterColumns', 'dropColumns', 'updateFieldMetadata'] as const),
  'dropIndex',
] as const satisfies readonly (keyof NativeTable)[];

/** As the service's own process has it: it encodes rows, takes them by address and reads metadata, and throws where it would compute (P12). */
function withoutComputing(table: NativeTable): NativeTable {
  const refuse = (name: string) => () => {
    throw new LancegateError('Internal', `${name} in a process that is no worker`);
  };
  const countRows = table.countRows.bind(table);
  const branches = table.branches.bind(table);
  return Object.assign(table, {
    ...Object.fromEntries(computing.map((name) => [name, refuse(name)])),
    countRows: (filter?: CheckedSql) => (filter === undefined ? countRows() : refuse('countRows')()),
    branches: async () => branchesWithoutComputing(await branches()),
  });
}

function branchesWithoutComputing(branches: NativeBranches): NativeBranches {
  const checkout = branches.checkout.bind(branches);
  return Object.assign(branches, {
    checkout: async (name: string, version?: number) => withoutComputing(await checkout(name, version)),
  });
}

/** The engine's default of 1,024 makes a file of every handful of rows; with a million the thread is held for long. */
const maxBatchRows = 2 ** 16;

export function queryOf(table: NativeTable, where: CheckedSql | undefined): NativeQuery {
  const query = table.query();
  if (where !== undefined) query.onlyIf(where);
  return query;
}

/** As `Dataset.select` and `Dataset.take`. */
export async function* resultsOf(
  begin: () => Promise<Omit<NativeQuery, 'onlyIf'>>,
  columns: readonly Projection[] | undefined,
): AsyncIterable<IpcFile> {
  const query = await engineCall('select', begin);
  if (columns === undefined) query.withRowId();
  else query.select(columns.map(({ name, expression }) => [name, expression]));
  const batches = await engineCall('select', () => query.execute(maxBatchRows));
  let isEmpty = true;
  for (;;) {
    const batch = await engineCall('select', () => batches.next());
    if (batch === null) break;
    isEmpty = false;
    yield batch;
  }
  if (isEmpty) yield await engineCall('select', () => query.outputSchema());
}

/** As `Dataset.take` where there are `rows`, else as `Dataset.select`. */
export const rowsOf = (
  open: () => Promise<NativeTable>,
  { columns, where, rows }: RowsToRead,
): AsyncIterable<IpcFile> =>
  resultsOf(async () => {
    const table = await open();
    return rows === undefined ? queryOf(table, where) : table.takeRowIds(rows.map(BigInt));
  }, columns);
