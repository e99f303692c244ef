/**
 * The writer of one table branch: a queue of merges and one pump (P2, P5). While a commit is in flight arriving merges
 * queue; when it is done, those of them that may share a commit do. An idle branch commits at once; after a commit there is
 * a short wait for the clients it answered (`group-commit-delay.ts`). Before its commit starts a request may leave: its signal takes
 * it out of the queue.
 */
import type { MergeCounts } from '../../engine/port/merge-spec.ts';
import { neverAborts, queueIsFull } from '../../kernel/read-write-lock.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { Committer, type CommitterParts } from '../commit.ts';
import type { MergeRequest } from '../merge-request.ts';
import { GroupCommitDelay } from './group-commit-delay.ts';
import { type PendingMerge, PendingMerges } from './pending-merges.ts';

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
