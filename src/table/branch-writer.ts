/**
 * The writer of one table branch: a queue of merges and one pump (P2, P5). While a commit is in flight arriving merges
 * queue; when it is done, those of them that may share a commit do. Nothing waits for company: an idle branch commits at
 * once.
 *
 * A group is the oldest request and all that may share with it, in order of arrival, so whoever is oldest always goes next
 * and nobody starves. Requests that share fail each for itself: a part whose values lie is taken out and refused alone, and
 * if the engine refuses a group as a whole, its requests are committed one by one.
 *
 * Before its commit starts a request may leave: its signal takes it out of the queue. Afterwards its outcome stands; a
 * deadline that passes meanwhile changes nothing for a shared commit, and cancels the engine's work of one that is alone.
 */
import { setImmediate } from 'node:timers/promises';
import { concatRows, FaultyPart } from '../arrow/concat-rows.ts';
import type { Catalog } from '../catalog/port.ts';
import type { Dataset, Engine, MergeCounts } from '../engine/port.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Location, TableId } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { CommitObserver } from './commit-observer.ts';
import type { TableGates } from './gates.ts';
import { KnownKeys, lookUp } from './known-keys.ts';
import {
  countsOf,
  groupLength,
  type RowsBefore,
  rowsBeforeByTotals,
  type SharedRows,
  shareRows,
  sharingKey,
} from './merge-group.ts';
import { isNested, keyColumnsOf, type MergeRequest } from './merge-request.ts';
import { dropLeftoverColumn, mergeNested } from './nested-merge.ts';
import type { OpenBranches } from './open-branches.ts';
import type { OpenDatasets } from './open-datasets.ts';

export interface WriterParts {
  readonly engine: Engine;
  readonly catalog: Catalog;
  readonly datasets: OpenDatasets;
  readonly gates: TableGates;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly observer: CommitObserver;
  readonly openBranches: OpenBranches;
  readonly maxWaiting: number;
}

interface Pending {
  readonly request: MergeRequest;
  readonly sharing: string | undefined;
  readonly resolve: (counts: MergeCounts) => void;
  readonly reject: (error: unknown) => void;
  /** Takes the request out of the queue's accounts; called once it left, in whatever way. */
  readonly leave: () => void;
}

/** The branch as it stands when the turn has come. */
interface Target {
  readonly dataset: Dataset;
  readonly location: Location;
}

/** A turn ends by itself: every commit ahead has a deadline. */
const untilItsTurn = new AbortController().signal;

export class BranchWriter {
  readonly #parts: WriterParts;
  readonly #queue: Pending[] = [];
  #pumping: Promise<void> | undefined;
  #isPreparing = false;
  #known: KnownKeys | undefined;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  get isIdle(): boolean {
    return this.#pumping === undefined;
  }

  /** Not the one whose turn it is, though it stays in the queue until its group is taken. */
  get #waiting(): number {
    return this.#queue.length - (this.#isPreparing ? 1 : 0);
  }

  /** Resolves when nothing is under way. */
  async settled(): Promise<void> {
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
    const { promise, resolve, reject } = Promise.withResolvers<MergeCounts>();
    const leaveQueue = this.#enterQueue();
    const onAbort = (): void => {
      this.#queue.splice(this.#queue.indexOf(pending), 1);
      pending.leave();
      reject(signal.reason as Error);
    };
    const pending: Pending = {
      request,
      sharing: sharingKey(request),
      resolve,
      reject,
      leave: () => {
        leaveQueue();
        signal.removeEventListener('abort', onAbort);
      },
    };
    signal.addEventListener('abort', onAbort, { once: true });
    this.#queue.push(pending);
    this.#pumping ??= this.#pump();
    return promise;
  }

  /** Counts the request as waiting until the returned function is called. */
  #enterQueue(): () => void {
    const { metrics } = this.#parts;
    const leave = metrics.mergeQueued();
    const wait = Promise.withResolvers<void>();
    void metrics.mergeStage('wait', () => wait.promise);
    return () => {
      leave();
      wait.resolve();
    };
  }

  /** Never rejects: every failure goes to the requests it belongs to. */
  async #pump(): Promise<void> {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      await this.#turn(next);
      await this.#letTheNextIn();
    }
    this.#pumping = undefined;
  }

  /**
   * Clients that just got their answers are about to send again; in two rounds of the event loop those that are here have
   * been read. Without this, two halves of the clients take turns, and groups are half of what they could be. Costs an
   * idle branch nothing: the pump has stopped by then.
   */
  async #letTheNextIn(): Promise<void> {
    if (this.#queue.length === 0) return;
    await setImmediate();
    await setImmediate();
  }

  async #turn(oldest: Pending): Promise<void> {
    const { table, branch } = oldest.request;
    this.#isPreparing = true;
    const leave = await this.#parts.gates.takeBranch(table, branch, untilItsTurn);
    try {
      const target = await this.#prepare(oldest.request);
      const group = this.#takeGroup(oldest.request.tableId);
      this.#isPreparing = false;
      await this.#commit(group, target);
    } catch (error) {
      this.#refuse(oldest, error);
    } finally {
      this.#isPreparing = false;
      leave();
    }
  }

  async #prepare({ tableId, branch, locate }: MergeRequest): Promise<Target> {
    const location = await locate();
    const dataset = await this.#parts.datasets.latest(location, branch);
    await this.#parts.openBranches.beforeCommit(tableId, branch, dataset);
    await dropLeftoverColumn(dataset);
    return { dataset, location };
  }

  /** Unless it has left by itself. */
  #refuse(pending: Pending, error: unknown): void {
    const place = this.#queue.indexOf(pending);
    if (place < 0) return;
    this.#queue.splice(place, 1);
    pending.leave();
    pending.reject(error);
  }

  /**
   * The oldest request and those that may share with it, taken as late as can be. None if the oldest is now one for another
   * table of that name, which has to be prepared first.
   */
  #takeGroup(tableId: TableId): readonly Pending[] {
    const [oldest] = this.#queue;
    if (oldest === undefined || oldest.request.tableId !== tableId) return [];
    const sharers =
      oldest.sharing === undefined ? [oldest] : this.#queue.filter(({ sharing }) => sharing === oldest.sharing);
    const group = sharers.slice(0, groupLength(sharers.map(({ request }) => request.piece)));
    const taken = new Set(group);
    this.#queue.splice(0, this.#queue.length, ...this.#queue.filter((pending) => !taken.has(pending)));
    for (const pending of group) pending.leave();
    return group;
  }

  async #commit(group: readonly Pending[], target: Target): Promise<void> {
    const [oldest] = group;
    if (oldest === undefined) return;
    try {
      if (group.length === 1) await this.#commitAlone(oldest, target);
      else await this.#commitShared(group, target);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  async #commitAlone(pending: Pending, target: Target): Promise<void> {
    const { request } = pending;
    const { dataset } = target;
    try {
      const before = await dataset.version();
      await this.#announce([request], before);
      const startMs = performance.now();
      const counts = await this.#inEngine(() => this.#mergeAlone(dataset, request));
      const shared = pending.sharing === undefined ? undefined : shareRows([request]);
      this.#keepKnown(before, counts, request, shared);
      await this.#finish([{ pending, counts }], target, performance.now() - startMs);
    } catch (error) {
      pending.reject(error);
    }
  }

  async #mergeAlone(dataset: Dataset, request: MergeRequest): Promise<MergeCounts> {
    const { on, spec, piece, keys, scope } = request;
    const timeoutMs = scope.remainingMs();
    if (isNested(request)) return mergeNested(this.#parts.engine, dataset, { on, spec, piece, keys, timeoutMs });
    const useIndex = spec.useIndex && (await isIndexSafe(dataset, [request]));
    return dataset.merge({ ...spec, useIndex, on: keyColumnsOf(request) }, piece.file, timeoutMs);
  }

  async #commitShared(group: readonly Pending[], target: Target): Promise<void> {
    const { dataset, location } = target;
    const requests = group.map(({ request }) => request);
    const before = await dataset.version();
    await this.#announce(requests, before);
    const startMs = performance.now();
    let shared: SharedRows;
    let totals: MergeCounts;
    try {
      shared = shareRows(requests);
      totals = await this.#inEngine(() => this.#mergeShared(dataset, requests, shared));
    } catch (error) {
      await this.#commitApart(group, target, error);
      return;
    }
    const engineMs = performance.now() - startMs;
    const rowsBefore = await this.#rowsBefore(requests, shared, before, totals, location);
    const outcomes = group.map((pending, index) => ({
      pending,
      counts: countsOf(pending.request, index, shared, rowsBefore, totals),
    }));
    this.#keepKnown(before, totals, requests[0] as MergeRequest, shared);
    await this.#finish(outcomes, target, engineMs);
  }

  /** `canConcat` was asked of each; pieces with one fingerprint have one schema message. */
  async #mergeShared(dataset: Dataset, requests: readonly MergeRequest[], shared: SharedRows): Promise<MergeCounts> {
    const piece = concatRows(shared.parts);
    const [first] = requests;
    if (first === undefined) throw new Error('a group without requests');
    const useIndex = first.spec.useIndex && (await isIndexSafe(dataset, requests));
    return dataset.merge({ ...first.spec, useIndex, on: keyColumnsOf(first) }, piece.file, longestTime(requests));
  }

  /** Nothing of the group was committed. Whoever is to blame is refused, and the others go on without them. */
  async #commitApart(group: readonly Pending[], target: Target, error: unknown): Promise<void> {
    if (error instanceof FaultyPart) {
      group[error.part]?.reject(error);
      const others = group.filter((_, index) => index !== error.part);
      const [only] = others;
      if (others.length > 1) await this.#commitShared(others, target);
      else if (only !== undefined) await this.#commitAlone(only, target);
      return;
    }
    for (const pending of group) await this.#commitAlone(pending, target);
  }

  /** Which keys the table had before: from the totals, else from the keys in memory, else by asking the version before. */
  async #rowsBefore(
    requests: readonly MergeRequest[],
    shared: SharedRows,
    before: number,
    totals: MergeCounts,
    location: Location,
  ): Promise<RowsBefore> {
    const [{ spec, on }] = requests as readonly [MergeRequest];
    const byTotals = rowsBeforeByTotals(spec, shared, totals);
    if (byTotals !== undefined) return byTotals;
    if (this.#known?.isOf(before, on) === true) return this.#known.rowsBefore();
    try {
      return await this.#askBefore(requests, before, location);
    } catch (error) {
      throw new LancegateError('Internal', 'the rows were merged, but whose were new could not be told', {
        cause: error,
      });
    }
  }

  async #askBefore(requests: readonly MergeRequest[], version: number, location: Location): Promise<RowsBefore> {
    const [{ on, branch }] = requests as readonly [MergeRequest];
    const past = await this.#parts.engine.open({ location, branch, version });
    try {
      this.#known = await KnownKeys.read(past, on);
      return this.#known?.rowsBefore() ?? (await lookUp(past, on, requests));
    } finally {
      past.close();
    }
  }

  #keepKnown(before: number, { version }: MergeCounts, request: MergeRequest, shared: SharedRows | undefined): void {
    const isUpToDate = shared !== undefined && this.#known?.isOf(before, request.on) === true;
    if (!isUpToDate || !this.#known?.advance(version, request, shared)) this.#known = undefined;
  }

  /** See operations/idempotency.ts: a crash must not make a committed merge look like one that never was. */
  async #announce(requests: readonly MergeRequest[], baseVersion: number): Promise<void> {
    const commits = requests.flatMap(({ keyed }) => keyed?.announce(baseVersion) ?? []);
    if (commits.length > 0) await this.#parts.catalog.announceCommits(commits);
  }

  #inEngine<Result>(run: () => Promise<Result>): Promise<Result> {
    return this.#parts.metrics.mergeStage('engine', run);
  }

  /**
   * The rows are committed: they are made durable, remembered as acknowledged, for the whole group at once, and told, in
   * this order. What is not remembered must not be told: after a power cut it would count as nobody's (P3, P6).
   */
  async #finish(
    outcomes: readonly { readonly pending: Pending; readonly counts: MergeCounts }[],
    { dataset, location }: Target,
    engineMs: number,
  ): Promise<void> {
    const { catalog, metrics, logger, observer, openBranches } = this.#parts;
    const [first] = outcomes;
    if (first === undefined) return;
    const { table, tableId, branch, on } = first.pending.request;
    await metrics.mergeStage('sync', () => openBranches.afterCommit(tableId, branch, dataset));
    const records = outcomes.map(({ pending, counts }) => pending.request.record(counts));
    const answers = outcomes.flatMap(({ pending, counts }) => pending.request.keyed?.answer(counts) ?? []);
    try {
      await metrics.mergeStage('record', () => catalog.recordTransactions(records, answers));
    } catch (error) {
      logger.error({ transactionIds: records.map(({ id }) => id), error }, 'committed merges could not be recorded');
      throw notRecorded(error);
    }
    metrics.commitFinished(outcomes.length);
    for (const { pending, counts } of outcomes) pending.resolve(counts);
    observer.committed({ table, tableId, branch, location, on, engineMs, version: first.counts.version });
  }
}

/**
 * Through an index the engine loses source rows whose key is NULL (neither inserted nor refused), panics on a filtered
 * update of some of the columns, and on a branch of a branch looks for main's index where it is not. Without the index it
 * reads the key column of the whole table instead.
 */
async function isIndexSafe(dataset: Dataset, requests: readonly MergeRequest[]): Promise<boolean> {
  const [first] = requests;
  if (first === undefined || first.branch !== undefined || requests.some(({ keys }) => keys.hasNull)) return false;
  if (typeof first.spec.whenMatchedUpdateAll === 'boolean') return true;
  return first.piece.schema.fields.length === (await dataset.schema()).fields.length;
}

/** undefined where one of them has no deadline. */
function longestTime(requests: readonly MergeRequest[]): number | undefined {
  const times = requests.map(({ scope }) => scope.remainingMs());
  return times.includes(undefined) ? undefined : Math.max(...(times as number[]));
}

const notRecorded = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'the rows were merged, but that could not be recorded', { cause });

const queueIsFull = (): LancegateError =>
  new LancegateError('SlowDown', 'too many writers already wait for this table', { retryAfterSeconds: 1 });
