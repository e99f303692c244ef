import type { MergeCounts } from '../../engine/port/merge-spec.ts';
import { neverAborts, queueIsFull } from '../../kernel/read-write-lock.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { MergeRequest } from '../batch.ts';
import { Committer, type CommitterParts } from '../commit.ts';
import { GroupCommitDelay, type PendingMerge, PendingMerges } from './pending-merges.ts';

export interface TableWriterParts extends WriterParts {
  /**
   * Idle writers are kept for the keys they know, so many of them, the least recently used forgotten first. More than tables are
   * kept open is no use: what is known goes with the dataset it is known of.
   */
  readonly maxIdle: number;
}

/** The one way rows get into an existing table: each table branch has one writer, made when it is first written to. */
export class TableWriter {
  readonly #parts: TableWriterParts;
  readonly #writers = new Map<string, BranchQueue>();

  constructor(parts: TableWriterParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the rows are committed and the commit is recorded. Throws what `TableAccess.requireUnchanged` and `Dataset.merge`
   * throw, `SlowDown`, and the reason of the scope's signal: then nothing was written. `Internal` leaves that open.
   */
  async merge(request: MergeRequest): Promise<MergeCounts> {
    const leave = await this.#parts.locks.lockShared(request.table.ref, request.scope.signal);
    try {
      return await this.#writerOf(request).merge(request);
    } finally {
      leave();
    }
  }

  /** Resolves when no commit is under way. */
  async settled(): Promise<void> {
    await Promise.all([...this.#writers.values()].map((writer) => writer.settled()));
  }

  #writerOf(request: MergeRequest): BranchQueue {
    const key = JSON.stringify([...request.table.ref.namespace, request.table.ref.name, request.branch ?? null]);
    const writer = this.#writers.get(key) ?? new BranchQueue(this.#parts);
    this.#writers.delete(key);
    this.#writers.set(key, writer);
    this.#forgetIdle();
    return writer;
  }

  #forgetIdle(): void {
    const { maxIdle } = this.#parts;
    if (this.#writers.size <= maxIdle) return;
    let idle = [...this.#writers.values()].filter((writer) => writer.isIdle).length;
    for (const [key, writer] of this.#writers) {
      if (idle <= maxIdle) return;
      if (!writer.isIdle) continue;
      writer.forgetKeys();
      this.#writers.delete(key);
      idle -= 1;
    }
  }
}

/**
 * The writer of one table branch: a queue of merges and one pump (P2, P5). While a commit is in flight arriving merges
 * queue; when it is done, those of them that may share a commit do. An idle branch commits at once; after a commit there is
 * a short wait for the clients it answered (`GroupCommitDelay`). Before its commit starts a request may leave: its signal takes
 * it out of the queue.
 */

export interface WriterParts extends CommitterParts {
  readonly locks: TableLocks;
  readonly maxWaiting: number;
}

export class BranchQueue {
  readonly #parts: WriterParts;
  readonly #pending: PendingMerges;
  readonly #committer: Committer;
  readonly #gathering: GroupCommitDelay;
  #pumping: Promise<void> | undefined;
  #isPreparing = false;

  constructor(parts: WriterParts) {
    this.#parts = parts;
    this.#pending = new PendingMerges(parts.metrics);
    this.#committer = new Committer(parts);
    this.#gathering = new GroupCommitDelay(parts.clock);
  }

  get isIdle(): boolean {
    return this.#pumping === undefined;
  }

  /** For one who lets go of this writer. */
  forgetKeys(): void {
    this.#committer.forgetKeys();
  }

  /** Resolves when nothing is under way; from now on nobody is waited for after a commit. */
  async settled(): Promise<void> {
    this.#gathering.stop();
    await this.#pumping;
  }

  /**
   * For one who holds the table shared. `SlowDown` when too many wait; the reason of the scope's signal when that aborts
   * before the commit.
   */
  merge(request: MergeRequest): Promise<MergeCounts> {
    const { signal } = request.scope;
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    if (this.#waiting >= this.#parts.maxWaiting) return Promise.reject(queueIsFull());
    const answer = this.#pending.add(request);
    this.#gathering.arrived();
    this.#pumping ??= this.#pump();
    return answer;
  }

  /** Not the one whose turn it is, though it stays in the queue until its group is taken. */
  get #waiting(): number {
    return this.#pending.length - (this.#isPreparing ? 1 : 0);
  }

  /** Never rejects: every failure goes to the requests it belongs to. */
  async #pump(): Promise<void> {
    for (let next = this.#pending.next; next !== undefined; next = this.#pending.next) {
      const startMs = performance.now();
      const answered = await this.#turn(next);
      await this.#gathering.wait(answered, performance.now() - startMs);
    }
    this.#pumping = undefined;
  }

  /** One batch under the branch's lock; answers how many merges it had. */
  async #turn(next: PendingMerge): Promise<number> {
    const { table, branch } = next.request;
    this.#isPreparing = true;
    const unlock = await this.#parts.locks.lockBranch(table.ref, branch, neverAborts);
    try {
      return await this.#committer.commit(next.request, () => {
        this.#isPreparing = false;
        return this.#pending.takeBatch(table.id);
      });
    } catch (error) {
      this.#pending.refuse(next, error);
      return 0;
    } finally {
      this.#isPreparing = false;
      unlock();
    }
  }
}
