import type { MergeCounts } from '../engine/port.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { TableId } from '../kernel/ids.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { groupLength, sharingKey } from './merge-group.ts';
import type { MergeRequest } from './merge-request.ts';

/** A merge that waits, or whose commit is under way. */
export interface PendingMerge {
  readonly request: MergeRequest;
  /** Equal for merges that may share a commit; undefined for one that takes its turn alone. */
  readonly sharing: string | undefined;
  readonly resolve: (counts: MergeCounts) => void;
  readonly reject: (error: unknown) => void;
  /** Ends its wait in the accounts; called once it left the queue, in whatever way. */
  readonly leave: () => void;
}

/** The merges that wait for one table branch, oldest first. A request may leave until it is taken. */
export class PendingMerges {
  readonly #metrics: Metrics;
  readonly #queue: PendingMerge[] = [];

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  get length(): number {
    return this.#queue.length;
  }

  get oldest(): PendingMerge | undefined {
    return this.#queue[0];
  }

  /** Settles when the request's commit has, or with the reason of its scope's signal if that aborts while it waits. */
  add(request: MergeRequest): Promise<MergeCounts> {
    const { signal } = request.scope;
    const { promise, resolve, reject } = Promise.withResolvers<MergeCounts>();
    const endWait = this.#startWait();
    const onAbort = (): void => this.refuse(pending, signal.reason);
    const leave = (): void => {
      endWait();
      signal.removeEventListener('abort', onAbort);
    };
    const pending: PendingMerge = { request, sharing: sharingKey(request), resolve, reject, leave };
    signal.addEventListener('abort', onAbort, { once: true });
    this.#queue.push(pending);
    return promise;
  }

  /** Does nothing to one that has left or was taken. */
  refuse(pending: PendingMerge, error: unknown): void {
    const place = this.#queue.indexOf(pending);
    if (place < 0) return;
    this.#queue.splice(place, 1);
    pending.leave();
    pending.reject(error);
  }

  /**
   * The oldest merge and those that may share with it, in order of arrival, so whoever is oldest always goes next and nobody
   * starves. None if the oldest is not for the table `tableId`, which was replaced then.
   */
  takeGroup(tableId: TableId): readonly PendingMerge[] {
    const { oldest } = this;
    if (oldest === undefined || oldest.request.tableId !== tableId) return [];
    const sharers =
      oldest.sharing === undefined ? [oldest] : this.#queue.filter(({ sharing }) => sharing === oldest.sharing);
    const group = sharers.slice(0, groupLength(sharers.map(({ request }) => request.piece)));
    const taken = new Set(group);
    this.#queue.splice(0, this.#queue.length, ...this.#queue.filter((pending) => !taken.has(pending)));
    for (const pending of group) pending.leave();
    return group;
  }

  /** Counts a merge as waiting until the returned function is called. */
  #startWait(): () => void {
    const leave = this.#metrics.mergeQueued();
    const wait = Promise.withResolvers<void>();
    void this.#metrics.mergeStage('wait', () => wait.promise);
    return () => {
      leave();
      wait.resolve();
    };
  }
}

export const queueIsFull = (): LancegateError =>
  new LancegateError('SlowDown', 'too many writers already wait for this table', { retryAfterSeconds: 1 });
