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
import type { Shadow } from '../engine/port/shadow.ts';
import type { AnsweredTotals } from '../idempotency/noted-outcomes.ts';
import { LancegateError, timedOut } from '../kernel/errors.ts';
import type { BranchName, Location, Properties, TableId, TableRef, TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { Some } from '../kernel/some.ts';
import type { WriteBounds } from '../kernel/write-bounds.ts';
import type { CountsSource } from '../telemetry/metrics.ts';

/** A write that was received and checked, and waits for the branch's lock. */
export interface WriteRequest {
  readonly kind: 'merge' | 'insert' | 'change' | 'index';
  /** Its transaction record has it. */
  readonly operation: WriteOperation;
  /** The table that the write was checked against. */
  readonly table: TableRecord;
  readonly branch: BranchName | undefined;
  readonly scope: RequestScope;
  readonly transactionId: TransactionId;
  /** The keyed request that this write answers, if it has an `Idempotency-Key`. */
  readonly keyed: KeyedRequest | undefined;
  /** Such a write is committed alone. */
  readonly bounds?: WriteBounds | undefined;
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
export interface WriteTotals extends AnsweredTotals {
  /** A write of several operations has those of each, in their order. */
  readonly each?: readonly AnsweredTotals[];
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
   * To be called before the commit where it is known by then what each write does: a retry after a crash gets that answer. Returns the
   * properties of the commit, which its transaction says.
   */
  readonly note?: (each: readonly WriteTotals[]) => Properties;
  /**
   * Of a write with bounds: to be called once it is known what the write does, before it is committed. False where it is not to be
   * committed. Throws what refuses it.
   */
  readonly mayCommit?: (totals: WriteTotals) => boolean;
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
export const unchanged = (requests: readonly unknown[], head: Head): Committed =>
  notCommitted(
    requests.map(() => ({ numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 })),
    head,
  );

/** What each write would have done to the head. */
export const notCommitted = (each: readonly WriteTotals[], { version }: Head): Committed => ({
  version,
  count: async () => ({ each, by: undefined }),
  surplusRows: 0,
});

/** To be called before the first step in a shadow, where steps that are commits of their own cannot be taken back. */
export function requireBoundable({ mayCommit }: Head, { isPrivate }: Pick<Shadow, 'isPrivate'>): void {
  if (isPrivate || mayCommit === undefined) return;
  throw new LancegateError(
    'Unsupported',
    'the engine alone can commit to this table, so what a write does is known only when it is done: dry_run and max_deleted are not for it',
  );
}

/** Throws `FaultyPart` with the number of a write that does not fit the columns of the head. */
export async function requireFit(requests: readonly WriteRequest[], { dataset }: Head): Promise<void> {
  if (requests.every(({ fit }) => fit === undefined)) return;
  const schema = await dataset.schema();
  for (const [index, { fit }] of requests.entries()) {
    if (fit === undefined || fit.checked === schema) continue;
    try {
      fit.check(schema);
    } catch (error) {
      throw FaultyPart.of(index, error);
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

/** What maintenance needs to know of one commit. All requests of a batch share it. */
export interface Commit {
  readonly table: TableRef;
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  readonly location: Location;
  /** The key columns of the merge. */
  readonly on: readonly FieldPath[];
  /** The version the commit made. */
  readonly version: number;
}

/**
 * Called after each commit: it must neither throw nor take time. The next commit of the same branch is recorded after the call,
 * so the versions of a branch come in their order.
 */
export interface CommitObserver {
  committed(commit: Commit): void;
}

/**
 * A commit from its preparation to its answers, as the next commit of its branch sees it. On an object store a commit is two rounds of
 * requests: the files that its version names, and then the manifest. The next one does its first round with the second of this one.
 *
 * - A commit is *planned* once the files of its version are there. From then on the next one is matched against that version, and its
 *   own files are uploaded.
 * - The manifest of the next one is written after this version is there, and this process was found to own the table since then. So
 *   every version is at exactly its predecessor.
 * - If this version is not made, or that is not known, what was prepared to follow it is thrown away, and matched again with the head
 *   that is there then: after this commit was made by another attempt, or was refused.
 * - Writes are recorded and answered in the order of the versions.
 *
 * Commits on a file system are not planned, because they are made at once.
 */
export class CommitUnderWay {
  #before: CommitUnderWay | undefined;
  readonly #planned = Promise.withResolvers<Head | undefined>();
  readonly #made = Promise.withResolvers<boolean>();
  readonly #done = Promise.withResolvers<void>();
  #isThrownAway = false;
  #next: CommitUnderWay | undefined;

  /** `before` is the commit whose planned head this one follows. */
  constructor(before: CommitUnderWay | undefined) {
    this.#before = before;
    if (before !== undefined) before.#next = this;
  }

  /** The head that a commit may follow before it is there; undefined if there is none until the first attempt has ended. */
  get planned(): Promise<Head | undefined> {
    return this.#planned.promise;
  }

  /** False once what was planned will not be made. */
  get canBeFollowed(): boolean {
    return !this.#isThrownAway;
  }

  /** Resolves once all of its writes are answered or refused. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** For the first attempt. `confirm`: throws where this process may not own the table any more. */
  turn(head: Head, confirm: () => Promise<void>): CommitTurn {
    const before = this.#before;
    return {
      follows: before && head.version,
      planned: ({ version }) => this.#planned.resolve({ ...head, version, turn: undefined }),
      isNext: async () => {
        if (before === undefined) return true;
        if (!(await before.#made.promise)) return false;
        await confirm();
        return true;
      },
    };
  }

  /**
   * The first attempt has made what was planned, or has not. Then it resolves once no other commit is under way, so that the next
   * attempt, or the refusal of some of the writes, goes on from the head that is there.
   */
  async attempted(isMade: boolean): Promise<void> {
    this.#isThrownAway = !isMade;
    this.#planned.resolve(undefined);
    this.#made.resolve(isMade);
    if (isMade) return;
    if (this.#next !== undefined) await this.#next.#made.promise;
    await this.#before?.done;
  }

  /** The version is there. Resolves when it is its turn to be recorded and answered. */
  async toBeAnswered(): Promise<void> {
    await this.#before?.done;
  }

  /** Also of a commit that ended before its first attempt, such as on a full disk. */
  end(): void {
    this.#before = undefined; // or it would hold all commits of the series
    this.#planned.resolve(undefined);
    this.#made.resolve(false);
    this.#done.resolve();
  }
}
