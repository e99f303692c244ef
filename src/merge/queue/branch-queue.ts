/**
 * The writer of one table branch: a queue of merges and one pump (P2, P5). While a commit is in flight arriving merges
 * queue; when it is done, those of them that may share a commit do. An idle branch commits at once; after a commit there is
 * a short wait for the clients it answered (`gathering.ts`). Before its commit starts a request may leave: its signal takes
 * it out of the queue.
 */
import type { MergeCounts } from '../../engine/port/engine.ts';
import type { Clock } from '../../kernel/clock.ts';
import { neverAborts, queueIsFull } from '../../kernel/read-write-lock.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { type CommitterParts, MergeCommitter } from '../commit.ts';
import type { CommitTarget } from '../engine-commit.ts';
import type { MergeRequest } from '../merge-request.ts';
import { dropLeftoverColumn } from '../strategy/nested.ts';
import { GroupCommitDelay } from './group-commit-delay.ts';
import { type PendingMerge, PendingMerges } from './pending-merges.ts';

export interface WriterParts extends CommitterParts {
  readonly datasets: OpenDatasets;
  readonly locks: TableLocks;
  readonly maxWaiting: number;
  readonly clock: Clock;
}

export class BranchQueue {
  readonly #parts: WriterParts;
  readonly #pending: PendingMerges;
  readonly #committer: MergeCommitter;
  readonly #gathering: GroupCommitDelay;
  #pumping: Promise<void> | undefined;
  #isPreparing = false;

  constructor(parts: WriterParts) {
    this.#parts = parts;
    this.#pending = new PendingMerges(parts.metrics);
    this.#committer = new MergeCommitter(parts);
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

  /** The group is taken as late as can be, so that it is as large as can be. Answers how many merges it had. */
  async #turn(next: PendingMerge): Promise<number> {
    const { table, tableId, branch } = next.request;
    this.#isPreparing = true;
    const leave = await this.#parts.locks.lockBranch(table, branch, neverAborts);
    try {
      const target = await this.#prepare(next.request);
      const group = this.#pending.takeGroup(tableId);
      this.#isPreparing = false;
      await this.#committer.commit(group, target);
      return group.length;
    } catch (error) {
      this.#pending.refuse(next, error);
      return 0;
    } finally {
      this.#isPreparing = false;
      leave();
    }
  }

  async #prepare({ tableId, branch, locate }: MergeRequest): Promise<CommitTarget> {
    const location = await locate();
    const dataset = await this.#parts.datasets.latest(location, branch);
    await this.#parts.recoveryMarks.beforeCommit(tableId, branch, dataset);
    await dropLeftoverColumn(dataset);
    return { dataset, location };
  }
}
