/**
 * One commit of a table branch, for one merge or for a group that shares it.
 *
 * Merges that share fail each for itself: a part whose values lie is taken out and refused alone, and if the engine refuses
 * a group as a whole for what a request holds, its merges are committed one by one. Past the engine's commit the outcome
 * stands; a deadline that passes meanwhile changes nothing for a shared commit, and cancels the engine's work of one that
 * is alone.
 */
import { setImmediate } from 'node:timers/promises';
import { concatRows, FaultyPart } from '../arrow/column/concat-rows.ts';
import type { Catalog } from '../catalog/port.ts';
import type { Dataset, MergeCounts } from '../engine/port/engine.ts';
import { LancegateError } from '../kernel/errors.ts';
import { principalKey } from '../kernel/principal.ts';
import type { CanonicalKey } from '../keys/key-columns.ts';
import type { RecoveryMarks } from '../table/recovery-marks.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Commit, CommitObserver } from './commit-observer.ts';
import { type CommitTarget, isFaultOfOne, type Merged, type SentRows } from './engine-commit.ts';
import { OutsideCommits, type Settled, undisturbed } from './external/external-commits.ts';
import { KeyIndexLoader, type KeyIndexLoaderParts } from './key-index/key-index-loader.ts';
import { KeyMemory, type KeyMemoryParts } from './known-keys/key-memory.ts';
import { isNested, type MergeRequest } from './merge-request.ts';
import { countsOf, rowsBeforeByTotals, type SharedRows, shareRows } from './queue/batch.ts';
import type { PendingMerge } from './queue/pending-merges.ts';
import { mergeRows } from './strategy/by-engine.ts';
import { mergeNested } from './strategy/nested.ts';

export interface CommitterParts extends KeyMemoryParts, KeyIndexLoaderParts {
  readonly catalog: Catalog;
  readonly metrics: Metrics;
  readonly observer: CommitObserver;
  readonly recoveryMarks: RecoveryMarks;
}

export class MergeCommitter {
  readonly #parts: CommitterParts;
  readonly #outside: OutsideCommits;
  readonly #keys: KeyMemory;
  readonly #places: KeyIndexLoader;

  constructor(parts: CommitterParts) {
    this.#parts = parts;
    this.#outside = new OutsideCommits(parts);
    this.#keys = new KeyMemory(parts);
    this.#places = new KeyIndexLoader(parts);
  }

  /** Gives back what only makes the next commit cheaper. */
  forgetKeys(): void {
    this.#keys.forget();
    this.#places.forget();
  }

  /** Settles every merge of the group. To be called under the branch's turn; never rejects. */
  async commit(group: readonly PendingMerge[], target: CommitTarget): Promise<void> {
    const [oldest] = group;
    if (oldest === undefined) return;
    try {
      await this.#keys.carryOver(target.dataset);
      if (await this.#commitByPlaces(group, target)) return;
      await target.dataset.catchUp();
      if (group.length === 1) await this.#commitAlone(oldest, target);
      else await this.#commitShared(group, target);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  /** False, with nothing written, where the engine is to find the rows: always at first, and for most kinds of merge. */
  async #commitByPlaces(group: readonly PendingMerge[], target: CommitTarget): Promise<boolean> {
    const requests = group.map(({ request }) => request) as [MergeRequest, ...MergeRequest[]];
    const [first] = requests;
    const places = group.every(isForPlaces) ? await this.#places.placesFor(target, first) : undefined;
    if (places === undefined) return false;
    const matched = await target.dataset.version();
    await this.#announce(requests, matched);
    const startMs = performance.now();
    const placed = await this.#parts.metrics.mergeStage('engine', () => this.#places.merge(target, requests, places));
    if (placed === undefined) return false;
    const { shared, found, replaced } = placed;
    const { version } = replaced;
    const settled = undisturbed(version, matched);
    const isBrief = shared.firstWith.size <= fewKeys;
    const each = await afterBoth(this.#sync(first, target), isBrief, async () => {
      this.#parts.metrics.countsTold('places');
      this.#places.learn(placed, places);
      if (!isBrief) await setImmediate();
      this.#keys.keep(settled, first, shared);
      const rowsBefore = (key: CanonicalKey) => (found.has(key) ? 1 : 0);
      const totals = { version, numAttempts: 1 };
      return requests.map((request, index) => countsOf(request, index, shared, rowsBefore, totals));
    });
    const outcomes = group.map((pending, index) => ({ pending, counts: each[index] as MergeCounts }));
    const engineMs = performance.now() - startMs;
    const how = { engineMs, gainsByIndex: false, isPlaced: true, mostFragments: found.size };
    await this.#finish(outcomes, target, how);
    return true;
  }

  async #commitAlone(pending: PendingMerge, target: CommitTarget): Promise<void> {
    const { request } = pending;
    try {
      const matched = await target.dataset.version();
      await this.#announce([request], matched);
      const startMs = performance.now();
      const merged = await this.#inEngine(target, matched, () => this.#mergeAlone(target.dataset, request));
      const engineMs = performance.now() - startMs;
      const settled = await this.#outside.settle(target, { requests: [request], chunk: request.chunk }, merged);
      const isWorthKnowing = !this.#keys.isEmpty && pending.sharing !== undefined;
      this.#keys.keep(settled, request, isWorthKnowing ? shareRows([request]) : undefined);
      if (isForPlaces(pending)) await this.#places.didWithout(target, [request], engineMs);
      await this.#sync(request, target);
      await this.#finish([{ pending, counts: withFound(merged.counts, settled) }], target, {
        engineMs,
        ...byEngine,
        ...merged,
      });
    } catch (error) {
      pending.reject(error);
    }
  }

  async #mergeAlone(dataset: Dataset, request: MergeRequest): Promise<Merged> {
    const { on, spec, chunk, keys, scope } = request;
    const remainingMs = () => scope.remainingMs();
    const principal = principalKey(scope.principal);
    if (isNested(request)) {
      return mergeNested(this.#parts.engine, dataset, { on, spec, chunk, keys, remainingMs, principal });
    }
    return mergeRows(dataset, { requests: [request], chunk }, remainingMs());
  }

  async #commitShared(group: readonly PendingMerge[], target: CommitTarget): Promise<void> {
    const { dataset } = target;
    const requests = group.map(({ request }) => request) as [MergeRequest, ...MergeRequest[]];
    const matched = await dataset.version();
    await this.#announce(requests, matched);
    const startMs = performance.now();
    let shared: SharedRows;
    let sent: SentRows;
    let merged: Merged;
    try {
      shared = shareRows(requests);
      // `canConcat` was asked of each; chunks with one fingerprint have one schema message.
      sent = { requests, chunk: concatRows(shared.parts) };
      merged = await this.#inEngine(target, matched, () => mergeRows(dataset, sent, longestTime(requests)));
    } catch (error) {
      await this.#commitApart(group, target, error);
      return;
    }
    const engineMs = performance.now() - startMs;
    const settled = await this.#outside.settle(target, sent, merged);
    if (group.every(isForPlaces)) await this.#places.didWithout(target, requests, engineMs);
    const counts = await afterBoth(this.#sync(requests[0], target), false, async () => {
      const counts = await this.#countsOfEach(target, requests, shared, merged, settled);
      await setImmediate();
      this.#keys.keep(settled, requests[0], shared);
      return counts;
    });
    const outcomes = group.map((pending, index) => ({ pending, counts: counts[index] as MergeCounts }));
    await this.#finish(outcomes, target, { engineMs, ...byEngine, ...merged });
  }

  /**
   * Whoever is to blame is refused, and the others go on without them. Only where the error says that nothing was written
   * and that it is a request's own: any other is everybody's.
   */
  async #commitApart(group: readonly PendingMerge[], target: CommitTarget, error: unknown): Promise<void> {
    if (error instanceof FaultyPart) {
      group[error.part]?.reject(error);
      const others = group.filter((_, index) => index !== error.part);
      const [only] = others;
      if (others.length > 1) await this.#commitShared(others, target);
      else if (only !== undefined) await this.#commitAlone(only, target);
      return;
    }
    if (!isFaultOfOne(error)) throw error;
    for (const pending of group) await this.#commitAlone(pending, target);
  }

  /** From the totals where they leave no doubt, else from the rows that the keys had before. */
  async #countsOfEach(
    target: CommitTarget,
    requests: readonly [MergeRequest, ...MergeRequest[]],
    shared: SharedRows,
    { counts }: Merged,
    settled: Settled,
  ): Promise<readonly MergeCounts[]> {
    const { version, found } = settled;
    const [{ spec }] = requests;
    const told =
      rowsBeforeByTotals(spec, shared, counts) ??
      (await this.#keys.rowsBefore(target, requests, { shared, counts, settled }));
    this.#parts.metrics.countsTold(told.by);
    const rowsBefore = (key: CanonicalKey) => (found.has(key) ? 1 : told.rowsBefore(key));
    const totals = { ...counts, version };
    return requests.map((request, index) => countsOf(request, index, shared, rowsBefore, totals));
  }

  /** See operations/idempotency/idempotency.ts: a crash must not make a committed merge look like one that never was. */
  async #announce(requests: readonly MergeRequest[], baseVersion: number): Promise<void> {
    const commits = requests.flatMap(({ keyed }) => keyed?.announce(baseVersion) ?? []);
    if (commits.length > 0) await this.#parts.catalog.announceCommits(commits);
  }

  /** The engine gives up when the time is over, also in the middle of its commit, which may then be there all the same (P6). */
  async #inEngine<Result>({ dataset }: CommitTarget, matched: number, run: () => Promise<Result>): Promise<Result> {
    try {
      return await this.#parts.metrics.mergeStage('engine', run);
    } catch (error) {
      if (isCutShort(error) && (await dataset.mayHaveCommitted(matched))) throw cutShort(error);
      throw error;
    }
  }

  #sync({ tableId, branch }: MergeRequest, { dataset }: CommitTarget): Promise<void> {
    return this.#parts.metrics.mergeStage('sync', () =>
      this.#parts.recoveryMarks.afterCommit(tableId, branch, dataset),
    );
  }

  /**
   * The rows are committed and durable: they are remembered as acknowledged, for the whole group at once, and told, in
   * this order. What is not remembered must not be told: after a power cut it would count as nobody's (P3, P6).
   */
  async #finish(
    outcomes: readonly { readonly pending: PendingMerge; readonly counts: MergeCounts }[],
    { location }: CommitTarget,
    how: Pick<Commit, 'engineMs' | 'gainsByIndex' | 'isPlaced' | 'mostFragments'>,
  ): Promise<void> {
    const { catalog, metrics, logger, observer } = this.#parts;
    const [first] = outcomes;
    if (first === undefined) return;
    const { table, tableId, branch, on } = first.pending.request;
    const records = outcomes.map(({ pending, counts }) => pending.request.record(counts));
    const answers = outcomes.flatMap(({ pending, counts }) => pending.request.keyed?.answer(counts) ?? []);
    try {
      await metrics.mergeStage('record', () => catalog.recordTransactions(records, answers));
    } catch (error) {
      logger.error({ transactionIds: records.map(({ id }) => id), error }, 'committed merges could not be recorded');
      throw notRecorded(error);
    }
    metrics.commitFinished(outcomes.length);
    for (const [index, { pending, counts }] of outcomes.entries()) {
      if (index % answersPerTurn === answersPerTurn - 1) await setImmediate();
      pending.resolve(counts);
    }
    const { version } = first.counts;
    const { engineMs, gainsByIndex, isPlaced, mostFragments } = how;
    const commit = { table, tableId, branch, location, on, version };
    observer.committed({ ...commit, engineMs, gainsByIndex, isPlaced, mostFragments });
  }
}

const byEngine = { isPlaced: false, mostFragments: Number.POSITIVE_INFINITY } as const;

/** Some 5 ms of work, after which whoever is refused, or writes to another table, has a turn of the event loop (P10). */
const answersPerTurn = 32;

/** Noting and counting so many takes 0.3 ms, a thirteenth of what 6,400 take (ADR 15): less than a turn of a busy event loop. */
const fewKeys = 500;

/**
 * Counts while the disk is busy, once the disk has been told, or at once if that is brief: 16 ms for a group of 190 merges,
 * beside 27 of syncing (a profile). Ends when both have, so that nothing is left of a commit when its turn ends.
 */
async function afterBoth<Counted>(
  syncing: Promise<void>,
  isBrief: boolean,
  count: () => Promise<Counted>,
): Promise<Counted> {
  const counting = isBrief ? count() : setImmediate().then(count);
  const [synced, counted] = await Promise.allSettled([syncing, counting]);
  if (synced.status === 'rejected') throw synced.reason;
  if (counted.status === 'rejected') throw counted.reason;
  return counted.value;
}

/** What the engine took for new and was there counts as found. */
const withFound = (counts: MergeCounts, { version, found, numFoundUpdated }: Settled): MergeCounts => ({
  ...counts,
  version,
  numInsertedRows: counts.numInsertedRows - found.size,
  numUpdatedRows: counts.numUpdatedRows + numFoundUpdated,
});

/** undefined where one of them has no deadline. */
function longestTime(requests: readonly MergeRequest[]): number | undefined {
  const times = requests.map(({ scope }) => scope.remainingMs());
  return times.includes(undefined) ? undefined : Math.max(...(times as number[]));
}

const notRecorded = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'the rows were merged, but that could not be recorded', { cause });

/** Upserts of whole rows by top-level keys that may share a commit; whether the columns are the table's shows later. */
const isForPlaces = ({ sharing, request: { spec } }: PendingMerge): boolean =>
  sharing !== undefined && spec.whenMatchedUpdateAll === true && spec.whenNotMatchedInsertAll;

/** At its deadline, or because its reader died: either may happen in the middle of the engine's commit. */
const isCutShort = (error: unknown): boolean =>
  error instanceof LancegateError && (error.kind === 'TimedOut' || error.kind === 'ReaderDied');

const cutShort = (cause: unknown): LancegateError => {
  const what =
    cause instanceof LancegateError && cause.kind === 'ReaderDied' ? 'its process ended' : 'the time ran out';
  return new LancegateError('Internal', `${what} while the rows were being committed; they may have been merged`, {
    cause,
  });
};
