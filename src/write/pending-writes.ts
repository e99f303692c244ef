import type { Clock } from '../kernel/clock.ts';
import type { TableId } from '../kernel/ids.ts';
import { onAbort, principalKey } from '../kernel/request-scope.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { BatchMember } from './commit.ts';
import type { WriteCounts, WriteRequest } from './write.ts';

/** Which writes may share a commit with this one, and how much it takes of what one commit has room for. */
export interface Sharing extends Pick<BatchMember, 'batchKey'> {
  readonly size: { readonly rows: number; readonly decodedBytes: number };
}

/** What one commit still has room for. */
class BatchLimits {
  #rows = 50_000;
  #bytes = 32 * 2 ** 20;
  #isEmpty = true;

  /** False where it does not fit; the first always does. */
  take({ rows, decodedBytes }: Sharing['size']): boolean {
    if (!this.#isEmpty && (rows > this.#rows || decodedBytes > this.#bytes)) return false;
    this.#isEmpty = false;
    this.#rows -= rows;
    this.#bytes -= decodedBytes;
    return true;
  }
}

/** A write that waits. */
export interface PendingWrite extends BatchMember, Sharing {
  readonly principal: string;
  /** Ends its wait in the metrics; to be called when it has left the queue. */
  readonly leave: () => void;
}

/**
 * The writes that wait for one table branch, oldest first. A request may leave until it is taken.
 *
 * Principals lead batches in rotation (P10): the oldest write of the next principal leads. So writes that cannot share a commit, or
 * many large ones, keep others waiting for a batch and not for a queue. No principal starves, since each comes closer with every
 * batch.
 */
export class PendingWrites {
  readonly #metrics: Metrics;
  readonly #queue: PendingWrite[] = [];
  #filled = Promise.withResolvers<void>();
  /** The principals whose writes wait; the next to lead a batch comes first. */
  readonly #principals = new Set<string>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  get length(): number {
    return this.#queue.length;
  }

  /** Resolves once a write waits. */
  get filled(): Promise<void> {
    return this.#queue.length > 0 ? Promise.resolve() : this.#filled.promise;
  }

  /** The write that leads the next batch. */
  get next(): PendingWrite | undefined {
    const [principal] = this.#principals;
    return this.#queue.find((pending) => pending.principal === principal);
  }

  /**
   * Settles when the request's commit has, or with the reason of its scope's signal if that aborts while it waits. The signal has
   * not aborted yet.
   */
  add(request: WriteRequest, sharing: Sharing): Promise<WriteCounts> {
    const { signal } = request.scope;
    const { promise, resolve, reject } = Promise.withResolvers<WriteCounts>();
    const endWait = this.#startWait();
    const stopListening = onAbort(signal, () => this.refuse(pending, signal.reason));
    const leave = (): void => {
      endWait();
      stopListening();
    };
    const principal = principalKey(request.scope.principal);
    const pending: PendingWrite = { request, ...sharing, principal, resolve, reject, leave };
    this.#queue.push(pending);
    this.#filled.resolve();
    this.#filled = Promise.withResolvers();
    this.#principals.add(principal);
    return promise;
  }

  /** Does nothing to one that has left or was taken. */
  refuse(pending: PendingWrite, error: unknown): void {
    const index = this.#queue.indexOf(pending);
    if (index < 0) return;
    this.#queue.splice(index, 1);
    this.#dropGonePrincipals();
    pending.leave();
    pending.reject(error);
  }

  /**
   * The next write and those that may share with it, in order of arrival. None if the next is not for the table `tableId`,
   * which was replaced then.
   */
  takeBatch(tableId: TableId): readonly PendingWrite[] {
    const { next } = this;
    if (next === undefined || next.request.table.id !== tableId) return [];
    const taken = next.batchKey === undefined ? new Set([next]) : this.#sharers(next);
    const batch = this.#queue.filter((pending) => taken.has(pending));
    this.#queue.splice(0, this.#queue.length, ...this.#queue.filter((pending) => !taken.has(pending)));
    this.#principals.delete(next.principal);
    this.#principals.add(next.principal);
    this.#dropGonePrincipals();
    for (const pending of batch) pending.leave();
    return batch;
  }

  /** One of each principal in rotation, and each principal's in their order, as long as there is room for another. */
  #sharers(next: PendingWrite): ReadonlySet<PendingWrite> {
    const sharers = this.#queue.filter((pending) => pending.batchKey === next.batchKey);
    const byPrincipal = Map.groupBy(sharers, ({ principal }) => principal);
    const limits = new BatchLimits();
    const taken = new Set<PendingWrite>();
    let lanes = Array.from(this.#principals, (principal) => byPrincipal.get(principal) ?? []);
    for (let index = 0; lanes.length > 0; index++) {
      lanes = lanes.filter((lane) => {
        const pending = lane[index];
        if (pending === undefined || !limits.take(pending.size)) return false;
        taken.add(pending);
        return true;
      });
    }
    return taken;
  }

  #dropGonePrincipals(): void {
    const waiting = new Set(this.#queue.map(({ principal }) => principal));
    for (const principal of this.#principals) if (!waiting.has(principal)) this.#principals.delete(principal);
  }

  /** Counts a write as waiting until the returned function is called. */
  #startWait(): () => void {
    const leave = this.#metrics.writeQueued();
    const wait = Promise.withResolvers<void>();
    void this.#metrics.writeStage('wait', () => wait.promise);
    return () => {
      leave();
      wait.resolve();
    };
  }
}

/** It says for how much of the time since the last call (0 to 1) the event loop was busy. */
type LoopUse = () => number;

export function loopUse(): LoopUse {
  let last = performance.eventLoopUtilization();
  return () => {
    const before = last;
    last = performance.eventLoopUtilization();
    return performance.eventLoopUtilization(last, before).utilization;
  };
}

interface Patience {
  /** Parts of what the last commit took: the longest gap between two arrivals, and the whole delay. */
  readonly gapPart: number;
  readonly wholePart: number;
  readonly longestGapMs: number;
  readonly longestMs: number;
}

/** Clients of the same network are back within this; only a slow one would take longer. */
const usual: Patience = { gapPart: 0.15, wholePart: 0.5, longestGapMs: 8, longestMs: 30 };

/**
 * Where the event loop is busy nearly all the time, the requests of those who are back wait for it, in this process or in one that
 * forwards them. To wait for them costs no time that the process could use, and a commit less leaves its time to other tables. The
 * bounds are for the writes that wait already.
 */
const ofBusyLoop: Patience = { gapPart: 0.5, wholePart: 1, longestGapMs: 250, longestMs: 500 };

/**
 * Waits after a commit for the clients that it answered, who often send their next request at once. A commit takes as long for 64
 * writes as for 16, so without this the clients fall into parts that alternate, each waiting for the other's commit.
 *
 * The wait ends when all are back, when none came for a moment that is short compared with a commit, and after half a commit at the
 * latest; in a process that has no time left, after longer (`ofBusyLoop`). With one client alone it ends as soon as that client is back.
 * A write that finds its branch idle does not wait.
 */
export class GroupCommitDelay {
  readonly #clock: Clock;
  readonly #loopUse: LoopUse;
  #arrived: (() => void) | undefined;
  #end: (() => void) | undefined;
  #isStopped = false;
  /** Clients that were answered and did not come back yet. */
  #absent = 0;

  constructor(clock: Clock, loopUse: LoopUse) {
    this.#clock = clock;
    this.#loopUse = loopUse;
  }

  /** The queue calls this for each write that comes. */
  arrived(): void {
    this.#absent = Math.max(0, this.#absent - 1);
    this.#arrived?.();
  }

  /** The queue calls this when the clients of a commit are answered. */
  answered(clients: number): void {
    this.#absent += clients;
  }

  /**
   * Ends the wait, and all later ones. To be called when the service ends: the timers of a clock do not keep a process alive, so a
   * wait in a process that has nothing else to do would not end.
   */
  stop(): void {
    this.#isStopped = true;
    this.#end?.();
  }

  get absent(): number {
    return this.#absent;
  }

  /**
   * Resolves when all clients that were answered are back, or `missing` of them, or at the end of the delay. `commitMs` is what the last
   * commit took. Who comes long after the others is not waited for again.
   */
  async wait(commitMs: number, missing = this.#absent): Promise<void> {
    if (missing === 0 || this.#isStopped) return;
    const { gapPart, wholePart, longestGapMs, longestMs } = this.#loopUse() < 0.9 ? usual : ofBusyLoop;
    const gapMs = Math.min(longestGapMs, commitMs * gapPart);
    const { promise, resolve } = Promise.withResolvers<void>();
    const giveUp = (): void => {
      this.#absent = 0;
      resolve();
    };
    this.#end = resolve;
    let stillMissing = missing;
    let cancelGap = this.#afterGap(gapMs, giveUp);
    const cancelWhole = this.#clock.schedule(Math.min(longestMs, commitMs * wholePart), resolve);
    this.#arrived = () => {
      cancelGap();
      stillMissing -= 1;
      if (stillMissing === 0) resolve();
      else cancelGap = this.#afterGap(gapMs, giveUp);
    };
    await promise;
    this.#arrived = undefined;
    this.#end = undefined;
    cancelGap();
    cancelWhole();
  }

  /**
   * In two halves: the event loop takes requests a few at a time, and between them looks at its timers by a clock that it set
   * before those few. So a timer may end while the next few are there; they come before the second half has ended.
   */
  #afterGap(gapMs: number, run: () => void): () => void {
    let cancel = this.#clock.schedule(gapMs / 2, () => {
      cancel = this.#clock.schedule(gapMs / 2, run);
    });
    return () => cancel();
  }
}
