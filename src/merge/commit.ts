/**
 * One commit of a table branch, for a batch of merges, while the branch is locked: the head, one row per key, write intents, the
 * first strategy that applies, durable files while the merges are counted and the key index is updated, the record, the answers.
 *
 * A merge that is at fault is refused alone, and the others are committed without it. Where another program commits first,
 * nothing was written, and the batch is merged again into what that program left. Once the version is there the outcome
 * stands, whatever becomes of the deadlines.
 */
import { setImmediate } from 'node:timers/promises';
import { FaultyPart } from '../arrow/column/concat-rows.ts';
import type { KeyedRequestCatalog, TransactionCatalog, TransactionRecord } from '../catalog/port.ts';
import type { MergeCounts } from '../engine/port/merge-spec.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import { keyedAnswer } from '../operations/idempotency/idempotency.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { RecoveryMarks } from '../table/recovery-marks.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { Batch, type BatchMember, type Head, type MergeRequest, outcomeOf } from './batch.ts';
import type { CommitObserver } from './commit-observer.ts';
import { KeyIndexLoader, type KeyIndexLoaderDeps } from './key-index/key-index-loader.ts';
import { ByRowAddress } from './strategy/by-row-address.ts';
import { InShadow } from './strategy/in-shadow.ts';
import { type Committed, type Counted, unchanged } from './strategy/strategy.ts';

export interface CommitterDeps extends KeyIndexLoaderDeps {
  readonly catalog: KeyedRequestCatalog & TransactionCatalog;
  readonly access: TableAccess;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: RecoveryMarks;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly observer: CommitObserver;
}

/** Other programs that commit without end must not keep a writer for ever. */
const mostAttempts = 100;

export class Committer {
  readonly #deps: CommitterDeps;
  readonly #keyIndex: KeyIndexLoader;
  readonly #byRowAddress: ByRowAddress;
  readonly #inShadow: InShadow;
  #hasWarned = false;

  constructor(deps: CommitterDeps) {
    this.#deps = deps;
    this.#keyIndex = new KeyIndexLoader(deps);
    this.#byRowAddress = new ByRowAddress(this.#keyIndex);
    this.#inShadow = new InShadow(this.#keyIndex, deps.engine);
  }

  /** Frees what only makes the next commit cheaper. */
  forgetKeys(): void {
    this.#keyIndex.forget();
  }

  /** The newest version of the branch, which has what other programs committed. */
  async head({ table, branch }: MergeRequest): Promise<Head> {
    const { access, datasets, recoveryMarks } = this.#deps;
    const { id, location } = await access.requireUnchanged(table);
    const dataset = await datasets.latest(location, branch);
    await recoveryMarks.beforeCommit(id, branch, dataset);
    return { dataset, location, branch, version: await dataset.version() };
  }

  /** Answers or refuses each of the `members`, of which there is at least one. */
  async commit(members: readonly BatchMember[], head: Head): Promise<void> {
    const requests = members.map(({ request }) => request);
    const batch = new Batch(requests, members[0]?.batchKey !== undefined, this.#deps.keyHasher);
    let isCommitted = false;
    try {
      const merged = await this.#mergeIntoHead(batch, head);
      isCommitted = merged.version !== merged.head.version;
      const { each: counts, by } = await this.#countWhileSyncing(batch, merged);
      await this.#record(batch, counts);
      this.#measure(batch, merged, by);
      await acknowledge(members, counts);
      this.#notify(batch, merged);
    } catch (error) {
      if (!isCommitted) await this.#refuse(members, error);
      else for (const { reject } of members) reject(afterCommit(error));
    } finally {
      batch.discard();
    }
  }

  /** Merges the batch into the head, or into the next head each time that another program commits first. */
  async #mergeIntoHead(batch: Batch, first: Head): Promise<CommittedBatch> {
    let head = first;
    for (let attempt = 1; attempt <= mostAttempts; attempt++) {
      await this.#recordIntents(batch, head);
      const startMs = performance.now();
      const outcome = await this.#deps.metrics.mergeStage('engine', () => this.#firstThatApplies(batch, head));
      if (typeof outcome === 'object') return { ...outcome, head, attempt, engineMs: performance.now() - startMs };
      this.#deps.metrics.commitOvertaken();
      // Without the key index the next attempt would take as long, and be overtaken too.
      await this.#byRowAddress.didWithout(batch, head, performance.now() - startMs);
      batch.requireTime();
      head = await this.head(batch.first);
    }
    throw overtaken();
  }

  async #firstThatApplies(batch: Batch, head: Head): Promise<Committed | 'overtaken'> {
    if (batch.changesNothing) return unchanged(batch, head);
    const outcome = await this.#byRowAddress.commit(batch, head);
    return outcome === 'does not apply' ? this.#inShadow.commit(batch, head) : outcome;
  }

  /** See operations/idempotency/idempotency.ts: a crash must not make a committed merge look like one that never was. */
  async #recordIntents(batch: Batch, { version: baseVersion }: Head): Promise<void> {
    const intents = batch.requests.flatMap(({ keyed, table: { id: tableId, ref }, branch }) =>
      keyed === undefined ? [] : [{ ...keyed, tableId, ref, branch, baseVersion }],
    );
    if (intents.length > 0) await this.#deps.catalog.recordIntents(intents);
  }

  /**
   * Counts while the disk is busy, once the sync has begun, or at once if counting is brief. Ends when both have ended, so that
   * nothing is left of a commit when the lock is released.
   */
  async #countWhileSyncing(batch: Batch, merged: CommittedBatch): Promise<CountsOfBatch> {
    const { metrics, recoveryMarks } = this.#deps;
    const { table, branch } = batch.first;
    const { head, version, attempt: numAttempts } = merged;
    const syncing = metrics.mergeStage('sync', () => recoveryMarks.afterCommit(table.id, branch, head.dataset));
    const counting = batch.numRows <= fewRows ? merged.count() : setImmediate().then(merged.count);
    const weighing = merged.isDirect ? undefined : this.#byRowAddress.didWithout(batch, head, merged.engineMs);
    const [synced, counted] = await Promise.allSettled([syncing, counting, weighing]);
    if (synced.status === 'rejected') throw synced.reason;
    if (counted.status === 'rejected') throw counted.reason;
    const { each, by } = counted.value;
    return { by, each: each.map((totals) => ({ ...totals, version, numAttempts })) };
  }

  /**
   * The rows are durable. They are recorded as acknowledged before any answer leaves, since recovery may remove what is not
   * recorded (P3, P6).
   */
  async #record({ requests }: Batch, counts: readonly MergeCounts[]): Promise<void> {
    const { catalog, clock, logger, metrics } = this.#deps;
    const committedAtMs = clock.nowMs();
    const records = requests.map((request, index) => transactionOf(request, counts[index]!, committedAtMs));
    const answers = requests.flatMap(({ keyed, transactionId }, index) =>
      keyed === undefined ? [] : [keyedAnswer(keyed, { transactionId, ...counts[index]! })],
    );
    try {
      await metrics.mergeStage('record', () => catalog.recordTransactions(records, answers));
    } catch (error) {
      logger.error({ transactionIds: records.map(({ id }) => id), error }, 'committed merges could not be recorded');
      throw notRecorded(error);
    }
  }

  #measure(
    { requests, first: { table, branch } }: Batch,
    merged: CommittedBatch,
    countedBy: CountsOfBatch['by'],
  ): void {
    const { version, head, surplusRows } = merged;
    if (version === head.version) return;
    const { metrics, logger } = this.#deps;
    metrics.commitFinished(requests.length);
    if (countedBy !== undefined) metrics.countsTaken(countedBy);
    if (surplusRows === 0 || this.#hasWarned) return;
    this.#hasWarned = true; // the program that doubles keys does it again and again
    const name = { table: showTable(table.ref), branch: branch ?? 'main' };
    logger.warn({ ...name, surplusRows }, 'keys had several rows, and an upsert left one of each');
  }

  /** Maintenance learns of every version before the next one is begun. */
  #notify(batch: Batch, merged: CommittedBatch): void {
    const { version, head, gainsByIndex, mostFragments } = merged;
    if (version === head.version) return;
    const { table, branch, on } = batch.first;
    const commit = { table: table.ref, tableId: table.id, branch, location: head.location, on, version };
    this.#deps.observer.committed({ ...commit, gainsByIndex, mostFragments });
  }

  /** The merge at fault, and no other. Where none is known to be, each is committed by itself. */
  async #refuse(members: readonly BatchMember[], error: unknown): Promise<void> {
    const isAlone = members.length === 1;
    if (error instanceof FaultyPart && !isAlone) {
      members[error.part]?.reject(error);
      await this.#commitAgain(members.filter((_, index) => index !== error.part));
    } else if (isAlone || !isFaultOfOne(error)) {
      for (const { reject } of members) reject(error);
    } else {
      for (const member of members) await this.#commitAgain([member]);
    }
  }

  async #commitAgain(members: readonly BatchMember[]): Promise<void> {
    try {
      await this.commit(members, await this.head(members[0]!.request));
    } catch (error) {
      for (const { reject } of members) reject(error);
    }
  }
}

/** A batch that was merged into the head. */
interface CommittedBatch extends Committed {
  readonly head: Head;
  readonly attempt: number;
  readonly engineMs: number;
}

interface CountsOfBatch {
  /** The counts of each merge, in the order of the merges. */
  readonly each: readonly MergeCounts[];
  readonly by: Counted['by'];
}

/** Counting so many takes less time than a busy event loop takes to come back. */
const fewRows = 500;

/** Some 5 ms of work, after which requests of other tables have the event loop (P10). */
const answersPerTurn = 32;

async function acknowledge(members: readonly BatchMember[], counts: readonly MergeCounts[]): Promise<void> {
  for (const [index, { resolve }] of members.entries()) {
    if (index % answersPerTurn === answersPerTurn - 1) await setImmediate();
    resolve(counts[index]!);
  }
}

const transactionOf = (
  { transactionId: id, table, branch }: MergeRequest,
  counts: MergeCounts,
  committedAtMs: number,
): TransactionRecord => ({
  id,
  tableId: table.id,
  ref: table.ref,
  operation: 'merge_insert',
  branch,
  version: counts.version,
  outcome: outcomeOf(counts),
  committedAtMs,
});

/** Nothing was written, and the same merge would fail again. Others of its batch may not fail. */
const isFaultOfOne = (error: unknown): boolean =>
  error instanceof LancegateError && error.entry.written === 'nothing' && error.entry.retry === 'never';

const overtaken = (): LancegateError =>
  new LancegateError('ConcurrentModification', 'other programs kept changing the table; nothing was written', {
    retryAfterSeconds: 1,
  });

/** The error for what fails once the version is there. It never says that nothing was written (P6). */
const afterCommit = (error: unknown): unknown =>
  error instanceof LancegateError && error.entry.written === 'nothing' ? unfinished(error) : error;

const unfinished = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'the rows were merged, but the merge could not be completed', { cause });

const notRecorded = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'the rows were merged, but that could not be recorded', { cause });
