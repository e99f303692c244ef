/**
 * A write of a table branch, whatever it changes: what the queue, the commit and the rooms of the writes (`merge/`, `insert/`,
 * `change/`, `indexing/`) know of each other. The rooms say how a write gets into a head; the queue and the commit say when, and
 * record and answer it.
 */
import { FaultyPart } from '../arrow/column/concat-rows.ts';
import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { Schema } from '../arrow/schema/schema.ts';
import type { KeyedRequest, TableRecord, WriteOperation } from '../catalog/port.ts';
import type { BranchHead, HeadCommits, History, Snapshot } from '../engine/port/dataset.ts';
import type { CommitTurn } from '../engine/port/row-address.ts';
import type { MergeTotals } from '../engine/port/shadow.ts';
import { LancegateError, timedOut } from '../kernel/errors.ts';
import type { BranchName, Location, Properties, TableId, TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { Some } from '../kernel/some.ts';
import type { CountsSource } from '../telemetry/metrics.ts';

/** A write that was received and checked, and waits for the branch's lock. */
export interface WriteRequest {
  readonly kind: 'merge' | 'insert' | 'change' | 'index';
  /** For its transaction record. */
  readonly operation: WriteOperation;
  /** The table that the write was checked against. */
  readonly table: TableRecord;
  readonly branch: BranchName | undefined;
  readonly scope: RequestScope;
  readonly transactionId: TransactionId;
  /** The keyed request that this write answers, if it has an `Idempotency-Key`. */
  readonly keyed: KeyedRequest | undefined;
  /** Without it the write fits whatever columns the head has. */
  readonly fit?: SchemaFit | undefined;
}

/** What a write needs of the columns of its branch: others may change them while it waits. */
export interface SchemaFit {
  /** It fits this schema. */
  readonly checked: Schema;
  /** Throws what refuses the write at a head with this schema. */
  check(schema: Schema): void;
}

/** What one write did. */
export interface WriteTotals extends MergeTotals {
  /** Of each of its operations, in their order, where a write has several. */
  readonly each?: readonly MergeTotals[];
}

export interface WriteCounts extends WriteTotals {
  /** The version that the write made, or the head's if it changed nothing. */
  readonly version: number;
  readonly numAttempts: number;
}

/** The newest version of a branch, while its lock is held; or the planned one that a commit under way makes. */
export interface Head {
  readonly dataset: Snapshot & BranchHead & HeadCommits & History;
  readonly tableId: TableId;
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly version: number;
  /**
   * To be called before the commit where it is known by then what each write does: a retry after a crash gets that answer. Returns what
   * the transaction says, for a commit by `replaceRows`; the others of the dataset say it by themselves.
   */
  readonly note?: (each: readonly WriteTotals[]) => Properties;
  /** How a commit by `replaceRows` takes its turn; undefined where none is prepared to follow this one. */
  readonly turn?: CommitTurn | undefined;
}

/** What each write of a batch did (P4). */
export interface Counted {
  readonly each: readonly WriteTotals[];
  /** undefined for a write alone, which the engine counts. */
  readonly by: CountsSource | undefined;
}

/** A batch that is in a version, and not yet known to be durable. */
export interface Committed {
  /** The version it made, or the head's if it changed nothing. */
  readonly version: number;
  /** Counts, and notes what later commits need. The committer calls it once, while it holds the lock. */
  readonly count: () => Promise<Counted>;
  /** How many rows were deleted because another program had doubled their keys. */
  readonly surplusRows: number;
}

/** The writes of one commit. */
export interface WriteBatch {
  readonly numRows: number;
  /** The key columns of a merge. */
  readonly on: readonly FieldPath[];
  /**
   * Commits one version directly after the head, or none. `overtaken`: another program has committed since the head was looked up,
   * and nothing is written. Throws what fails the batch: `FaultyPart` says which of its writes did.
   */
  commit(head: Head): Promise<Committed | 'overtaken'>;
  /** The owner calls this when the batch is committed, or will not be. */
  discard(): void;
}

/** How writes of one kind get into a branch. */
export interface WriteKind<Request extends WriteRequest> {
  /** `isShared`: the batch key of the requests is not undefined. */
  batch(requests: Some<Request>, isShared: boolean): WriteBatch;
  /** Batches of writes that may share a commit can have a head that is planned only. Where one cannot after all, it is `overtaken`. */
  readonly canFollow?: boolean;
  /** Frees what only makes the next commit to the branch cheaper, where the kind keeps any. */
  forget?(): void;
}

/** The kinds of writes of one branch. The kind that a request names takes it. */
export type WriteKinds = Readonly<Record<WriteRequest['kind'], WriteKind<WriteRequest>>>;

/**
 * Whether the dataset is still at the version of the head: a reader may have refreshed it. A commit to a later version would follow
 * one for which the catalog has not confirmed that this process still owns the table. To be asked directly before a commit.
 */
export const isAtHead = async ({ dataset, version }: Head): Promise<boolean> => (await dataset.version()) === version;

/** Nothing is written of a batch that changes nothing, and no version is made. */
export const unchanged = (requests: readonly unknown[], { version }: Head): Committed => ({
  version,
  count: async () => ({
    each: requests.map(() => ({ numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 })),
    by: undefined,
  }),
  surplusRows: 0,
});

/** Throws `FaultyPart` with the number of a write that does not fit the columns of the head. */
export async function requireFit(requests: readonly WriteRequest[], { dataset }: Head): Promise<void> {
  if (requests.every(({ fit }) => fit === undefined)) return;
  const schema = await dataset.schema();
  for (const [index, { fit }] of requests.entries()) {
    if (fit === undefined || fit.checked === schema) continue;
    try {
      fit.check(schema);
    } catch (error) {
      throw error instanceof LancegateError ? new FaultyPart(index, error) : error;
    }
  }
}

/** A batch goes on as long as one of its writes has time. To be called while nothing is written; else throws `TimedOut`. */
export function requireTime(requests: readonly Pick<WriteRequest, 'scope'>[]): void {
  if (requests.some(({ scope }) => (scope.remainingMs() ?? 1) > 0)) return;
  throw timedOut();
}

/** undefined where one of the writes has no deadline. */
export function longestTime(requests: readonly Pick<WriteRequest, 'scope'>[]): number | undefined {
  const times = requests.map(({ scope }) => scope.remainingMs() ?? Number.POSITIVE_INFINITY);
  const longest = Math.max(...times);
  return longest === Number.POSITIVE_INFINITY ? undefined : longest;
}
