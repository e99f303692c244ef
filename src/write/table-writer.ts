import { queueIsFull } from '../kernel/errors.ts';
import type { TableRef } from '../kernel/ids.ts';
import { neverAborts } from '../kernel/read-write-lock.ts';
import { reasonOf } from '../kernel/request-scope.ts';
import { isSome } from '../kernel/some.ts';
import { type TableLocks, writersOfTable } from '../table/table-locks.ts';
import { Committer, type CommitterDeps } from './commit.ts';
import { GroupCommitDelay, loopUse, type PendingWrite, PendingWrites, type Sharing } from './pending-writes.ts';
import type { CommitUnderWay, Head, WriteCounts, WriteKinds, WriteRequest } from './write.ts';

interface WriterDeps extends CommitterDeps {
  readonly locks: TableLocks;
  readonly maxWaiting: number;
  /** The kinds of writes of one more branch. */
  readonly openKinds: () => WriteKinds;
}

/** Fewer clients are back at once, and share each commit: two commits would be twice the requests to the store. */
const leastHalved = 16;

const alone: Sharing = { batchKey: undefined, size: { rows: 0, decodedBytes: 0 } };

interface TableWriterDeps extends WriterDeps {
  /** Idle writers are kept for their key indexes. Such an index lasts as long as its dataset is open, so more than those are no use. */
  readonly maxIdle: number;
}

/** The one way to change a table that exists: each table branch has one writer, made when it is first written to. */
export class TableWriter {
  readonly #deps: TableWriterDeps;
  readonly #writers = new Map<string, BranchQueue>();

  constructor(deps: TableWriterDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves when the write is committed and the commit is recorded. Throws what `TableAccess.requireUnchanged` and the kind of the
   * write throw, `SlowDown`, and the reason of the scope's signal: then nothing was written. `Internal` leaves that open.
   */
  async write(request: WriteRequest, sharing: Sharing = alone): Promise<WriteCounts> {
    const leave = await this.#deps.locks.lockShared(request.table.ref, request.scope.signal);
    try {
      return await this.#writerOf(request).write(request, sharing);
    } finally {
      leave();
    }
  }

  /** Frees what is known of the branches of a table: another process may write to them. */
  forget({ namespace, name }: TableRef): void {
    const begin = JSON.stringify([...namespace, name]).slice(0, -1);
    for (const [key, writer] of this.#writers) {
      if (!key.startsWith(`${begin},`) || JSON.parse(key).length !== namespace.length + 2) continue;
      writer.forget();
      if (writer.isIdle) this.#writers.delete(key);
    }
  }

  /** Resolves when no commit is under way. */
  async whenIdle(): Promise<void> {
    await Promise.all([...this.#writers.values()].map((writer) => writer.whenIdle()));
  }

  #writerOf(request: WriteRequest): BranchQueue {
    const key = JSON.stringify([...request.table.ref.namespace, request.table.ref.name, request.branch ?? null]);
    const writer = this.#writers.get(key) ?? new BranchQueue(this.#deps);
    this.#writers.delete(key);
    this.#writers.set(key, writer);
    this.#forgetIdle();
    return writer;
  }

  #forgetIdle(): void {
    const { maxIdle } = this.#deps;
    if (this.#writers.size <= maxIdle) return;
    let idle = [...this.#writers.values()].filter((writer) => writer.isIdle).length;
    for (const [key, writer] of this.#writers) {
      if (idle <= maxIdle) return;
      if (!writer.isIdle) continue;
      writer.forget();
      this.#writers.delete(key);
      idle -= 1;
    }
  }
}

/**
 * The writer of one table branch: a queue of writes and one pump (P2, P5). While a commit is under way arriving writes queue; when
 * it is done, or planned on an object store (`CommitUnderWay`), those of them that may share a commit do. An idle branch commits
 * at once; after a commit there is a short wait for the clients it answered (`GroupCommitDelay`). Before its commit starts a request
 * may leave: its signal takes it out of the queue.
 */
class BranchQueue {
  readonly #deps: WriterDeps;
  readonly #pending: PendingWrites;
  readonly #committer: Committer;
  readonly #delay: GroupCommitDelay;
  #pumping: Promise<void> | undefined;
  #isPreparing = false;
  #lastCommitMs = 0;
  /** The last commit was planned before it was made. */
  #overlaps = false;
  /** Writes of the commits under way. */
  #underWay = 0;

  constructor(deps: WriterDeps) {
    this.#deps = deps;
    this.#pending = new PendingWrites(deps.metrics);
    this.#committer = new Committer(deps, deps.openKinds());
    this.#delay = new GroupCommitDelay(deps.clock, loopUse());
  }

  get isIdle(): boolean {
    return this.#pumping === undefined;
  }

  /** The owner calls this when it drops the writer. */
  forget(): void {
    this.#committer.forget();
  }

  /** Resolves when no commit is under way; from now on there is no wait after a commit. */
  async whenIdle(): Promise<void> {
    this.#delay.stop();
    await this.#pumping;
  }

  /**
   * The caller holds the table's shared lock. Throws `SlowDown` when too many wait, and the reason of the scope's signal when
   * that aborts before the commit.
   */
  write(request: WriteRequest, sharing: Sharing): Promise<WriteCounts> {
    const { signal } = request.scope;
    if (signal.aborted) return Promise.reject(reasonOf(signal));
    if (this.#waiting >= this.#deps.maxWaiting) return Promise.reject(queueIsFull(writersOfTable));
    const answer = this.#pending.add(request, sharing);
    this.#delay.arrived();
    this.#pumping ??= this.#pump();
    return answer;
  }

  /**
   * How many writes wait. The one that leads the batch in preparation does not count, though it stays in the queue until its
   * batch is taken.
   */
  get #waiting(): number {
    return this.#pending.length - (this.#isPreparing ? 1 : 0);
  }

  /** Never rejects: every failure goes to the requests it belongs to. */
  async #pump(): Promise<void> {
    for (let next = this.#pending.next; next !== undefined; next = this.#pending.next) {
      await this.#commitSeries(next);
      await this.#gather();
    }
    this.#pumping = undefined;
  }

  /**
   * Under one hold of the branch's lock: a batch, and those that are prepared while the one before them is under way. The first is taken
   * once the head is known, to be large.
   */
  async #commitSeries(next: PendingWrite): Promise<void> {
    const { table, branch } = next.request;
    this.#isPreparing = true;
    const unlock = await this.#deps.locks.lockBranch(table.ref, branch, neverAborts);
    try {
      const head = await this.#committer.head(next.request);
      this.#isPreparing = false;
      await this.#commitFollowing(this.#start(head, undefined));
    } catch (error) {
      this.#pending.refuse(next, error);
    } finally {
      this.#isPreparing = false;
      unlock();
    }
  }

  /** Two commits are under way at the most: one whose manifest is written, and one whose files are. */
  async #commitFollowing(first: CommitUnderWay | undefined): Promise<void> {
    let before: CommitUnderWay | undefined;
    for (let last = first; last !== undefined; ) {
      const planned: Head | undefined = await last.planned;
      this.#overlaps = planned !== undefined;
      await before?.done;
      before = last;
      if (planned !== undefined && (await this.#isFollowed(last, planned))) last = this.#start(planned, last);
      else {
        await last.done;
        last = undefined;
      }
    }
  }

  /**
   * Whether writes come that can follow the commit while that is under way. They give way to whoever waits for the lock. Less than
   * half of a few clients wait for the others, so that all are in step again and share a commit.
   */
  async #isFollowed(commit: CommitUnderWay, head: Head): Promise<boolean> {
    await Promise.race([commit.done, this.#pending.filled]);
    if (this.#pending.length === 0) return false;
    await this.#gather();
    const { next } = this.#pending;
    if (this.#clients < leastHalved && this.#pending.length < this.#clients / 2) return false;
    if (next === undefined || !commit.canBeFollowed || !this.#committer.canFollow(next, head)) return false;
    return !this.#deps.locks.isBranchWanted(next.request.table.ref, head.branch);
  }

  /**
   * Waits for the clients that were answered. Where a commit is prepared while another is under way, for half of all that write: then
   * two batches alternate, and the one is received while the store has the other.
   */
  #gather(): Promise<void> {
    const { absent } = this.#delay;
    const halves = this.#overlaps && this.#clients >= leastHalved;
    const wanted = halves ? Math.ceil(this.#clients / 2) - this.#pending.length : absent;
    return this.#delay.wait(this.#lastCommitMs, Math.max(0, Math.min(wanted, absent)));
  }

  /** Those that write to this branch at present, as far as is known. */
  get #clients(): number {
    return this.#underWay + this.#pending.length + this.#delay.absent;
  }

  /** undefined if the next write is not for the table of the head. */
  #start(head: Head, before: CommitUnderWay | undefined): CommitUnderWay | undefined {
    const batch = this.#pending.takeBatch(head.tableId);
    if (!isSome(batch)) return undefined;
    const startMs = performance.now();
    this.#underWay += batch.length;
    const commit = this.#committer.start(batch, head, before);
    void commit.done.then(() => {
      this.#underWay -= batch.length;
      this.#delay.answered(batch.length);
      this.#lastCommitMs = performance.now() - startMs;
    });
    return commit;
  }
}
