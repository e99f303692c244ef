/**
 * One commit of a table branch, for a batch of writes of one kind, while the branch is locked: the head, write intents, the version
 * that the kind makes, durable files while the writes are counted, the record, the answers.
 *
 * A write that is at fault is refused alone, and the others are committed without it. Where another program commits first,
 * nothing was written, and the batch is committed again to what that program left. Once the version is there the outcome
 * stands, whatever becomes of the deadlines. A commit may be prepared while the one before it is under way (`CommitUnderWay`).
 */
import { setImmediate } from 'node:timers/promises';
import { FaultyPart } from '../arrow/column/concat-rows.ts';
import type { KeyedRequestCatalog, TransactionCatalog, TransactionRecord } from '../catalog/port.ts';
import type { MergeTotals } from '../engine/port/shadow.ts';
import { keyedAnswer } from '../idempotency/idempotency.ts';
import { notedOutcomes, outcomeOf } from '../idempotency/noted-outcomes.ts';
import type { Clock } from '../kernel/clock.ts';
import { isOutcomeUnknown, LancegateError } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import { paired } from '../kernel/paired.ts';
import { isSome, mapSome, type Some } from '../kernel/some.ts';
import { mayCommit } from '../kernel/write-bounds.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { RecoveryMarks } from '../table/recovery-marks.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import {
  type CommitObserver,
  type Committed,
  CommitUnderWay,
  type Counted,
  type Head,
  requireFit,
  requireTime,
  type WriteBatch,
  type WriteCounts,
  type WriteKinds,
  type WriteRequest,
} from './write.ts';

/** A write that is to be committed, and how it is answered. */
export interface BatchMember {
  readonly request: WriteRequest;
  /** Equal for writes that may share a commit; undefined for one that is committed alone. */
  readonly batchKey: string | undefined;
  readonly resolve: (counts: WriteCounts) => void;
  readonly reject: (error: unknown) => void;
}

export interface CommitterDeps {
  readonly catalog: KeyedRequestCatalog & TransactionCatalog;
  readonly access: TableAccess;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: RecoveryMarks;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly observer: CommitObserver;
}

export class Committer {
  readonly #deps: CommitterDeps;
  readonly #kinds: WriteKinds;
  #hasWarned = false;

  constructor(deps: CommitterDeps, kinds: WriteKinds) {
    this.#deps = deps;
    this.#kinds = kinds;
  }

  /** Frees what only makes the next commit cheaper. */
  forget(): void {
    for (const kind of Object.values(this.#kinds)) kind.forget?.();
  }

  /** The newest version of the branch, which has what other programs committed. */
  async head({ table, branch }: WriteRequest): Promise<Head> {
    const { access, datasets, recoveryMarks } = this.#deps;
    const record = await access.requireUnchanged(table);
    const { location } = record;
    const dataset = await datasets.toWrite(location, branch);
    const version = await dataset.version();
    await recoveryMarks.beforeCommit(record, branch, dataset);
    return { dataset, tableId: record.id, location, branch, version };
  }

  /** Whether the write can follow a commit that is planned only. */
  canFollow({ request, batchKey }: Pick<BatchMember, 'request' | 'batchKey'>, { tableId }: Head): boolean {
    return batchKey !== undefined && this.#kinds[request.kind].canFollow === true && request.table.id === tableId;
  }

  /**
   * Answers or refuses each of the `members`. All are of one kind. `before` is the commit that plans this head, of which each of
   * them `canFollow`.
   */
  start(members: Some<BatchMember>, head: Head, before?: CommitUnderWay): CommitUnderWay {
    const underWay = new CommitUnderWay(before);
    void this.#run(members, head, underWay).finally(() => underWay.end());
    return underWay;
  }

  /** Never rejects. */
  async #run(members: Some<BatchMember>, head: Head, underWay: CommitUnderWay): Promise<void> {
    const requests = mapSome(members, ({ request }) => request);
    const [{ request: first, batchKey }] = members;
    const batch = this.#kinds[first.kind].batch(requests, batchKey !== undefined);
    let isCommitted = false;
    try {
      const answers = requests.filter(({ keyed }) => keyed !== undefined).length;
      // A disk that fills during the commit must not make its outcome unknown (P6).
      using _ = this.#deps.catalog.reserveRoom(requests.length, answers);
      const made = await this.#commitToHead(requests, batch, head, underWay);
      isCommitted = made.version !== made.head.version;
      await underWay.toBeAnswered();
      const { each: counts, by } = await this.#countWhileSyncing(requests, batch, made);
      if (first.bounds?.isDryRun !== true) await this.#record(requests, counts);
      this.#measure(requests, made, by);
      for (const [index, [{ resolve }, each]] of paired(members, counts).entries()) {
        // So many are some 5 ms of work, after which requests of other tables have the event loop (P10).
        if (index % 32 === 31) await setImmediate();
        resolve(each);
      }
      this.#notify(first, batch, made);
    } catch (error) {
      if (!isCommitted) await this.#refuse(members, error);
      else for (const { reject } of members) reject(afterCommit(error));
    } finally {
      batch.discard();
    }
  }

  /** Commits the batch to the head, or to the next head each time that another program commits first. */
  async #commitToHead(
    requests: Some<WriteRequest>,
    batch: WriteBatch,
    newest: Head,
    underWay: CommitUnderWay,
  ): Promise<CommittedBatch> {
    const { table, branch } = requests[0];
    const turn = underWay.turn(newest, () => this.#deps.recoveryMarks.beforeCommit(table, branch, newest.dataset));
    const first = { ...newest, turn };
    let outcome = await this.#inTurn(underWay, () => this.#attemptTwice(requests, batch, first, 1));
    let head = newest;
    // Other programs that commit without end must not keep a writer for ever.
    for (let attempt = 2; outcome === 'overtaken' && attempt <= 100; attempt++) {
      if (attempt > 2 || turn.follows === undefined) this.#deps.metrics.commitOvertaken();
      requireTime(requests);
      head = await this.head(requests[0]);
      outcome = await this.#attemptTwice(requests, batch, head, attempt);
      if (outcome !== 'overtaken') return { ...outcome, head, attempt };
    }
    if (outcome === 'overtaken')
      throw new LancegateError(
        'ConcurrentModification',
        'other programs kept changing the table; nothing was written',
        { retryAfterSeconds: 1 },
      );
    return { ...outcome, head, attempt: 1 };
  }

  async #inTurn(underWay: CommitUnderWay, attempt: () => Promise<Committed | 'overtaken'>) {
    let isMade = false;
    try {
      const outcome = await attempt();
      isMade = outcome !== 'overtaken';
      return outcome;
    } finally {
      await underWay.attempted(isMade);
    }
  }

  /** Once more where the process ended that computed it: another may have ended it. Of one that ends the next process, too, it is the fault. */
  async #attemptTwice(...of: Attempt): Promise<Committed | 'overtaken'> {
    try {
      return await this.#attempt(...of);
    } catch (error) {
      if (!hasEndedReader(error)) throw error;
    }
    try {
      return await this.#attempt(...of);
    } catch (error) {
      if (!hasEndedReader(error)) throw error;
      throw new LancegateError(
        'WriteEndsReaders',
        `the write was tried twice: ${error.message}; send fewer rows or columns at a time, or a simpler condition`,
        { cause: error, ...(error.internal && { internal: error.internal }) },
      );
    }
  }

  /** No write is refused, or found to change nothing, by a head that another program has left behind meanwhile. */
  async #attempt(...[requests, batch, head, attempt]: Attempt): Promise<Committed | 'overtaken'> {
    try {
      await requireFit(requests, head);
      // See idempotency/idempotency.ts: a crash must not make a committed write look like one that never was.
      const intents = requests.flatMap(({ keyed, table: { id: tableId, ref }, branch }) =>
        keyed === undefined ? [] : [{ ...keyed, tableId, ref, branch, baseVersion: head.version }],
      );
      if (intents.length > 0) await this.#deps.catalog.recordIntents(intents);
      const note = noteOf(requests, attempt);
      const { bounds } = requests[0];
      const asked = bounds && { mayCommit: (totals: MergeTotals) => mayCommit(bounds, totals.numDeletedRows) };
      const outcome = await this.#deps.metrics.writeStage('engine', () =>
        batch.commit({ ...head, ...(note && { note }), ...asked }),
      );
      if (outcome === 'overtaken' || outcome.version !== head.version) return outcome;
      return (await isBehind(head)) ? 'overtaken' : outcome;
    } catch (error) {
      if ((error instanceof FaultyPart || isFaultOfOne(error)) && (await isBehind(head).catch(() => false)))
        return 'overtaken';
      if (isOutcomeUnknown(error)) this.#deps.recoveryMarks.doubt(requests[0].table.id, requests[0].branch);
      throw error;
    }
  }

  /**
   * Counts while the disk is busy, once the sync has begun, or at once if counting is brief. Ends when both have ended, so that
   * nothing is left of a commit when the lock is released.
   */
  async #countWhileSyncing(
    [{ table, branch }]: Some<WriteRequest>,
    { numRows }: WriteBatch,
    { head, version, attempt: numAttempts, count }: CommittedBatch,
  ): Promise<CountsOfBatch> {
    const { metrics, recoveryMarks } = this.#deps;
    const syncing = metrics.writeStage('sync', () => recoveryMarks.afterCommit(table.id, branch, head.dataset));
    // Counting so many takes less time than a busy event loop takes to come back.
    const counting = numRows <= 500 ? count() : setImmediate().then(count);
    const [synced, counted] = await Promise.allSettled([syncing, counting]);
    if (synced.status === 'rejected') throw synced.reason;
    if (counted.status === 'rejected') throw counted.reason;
    const { each, by } = counted.value;
    return { by, each: each.map((totals) => ({ ...totals, version, numAttempts })) };
  }

  /**
   * The version is durable. It is recorded as acknowledged before any answer leaves, since recovery may remove what is not
   * recorded (P3, P6).
   */
  async #record(requests: readonly WriteRequest[], counts: readonly WriteCounts[]): Promise<void> {
    const { catalog, clock, logger, metrics } = this.#deps;
    const committedAtMs = clock.nowMs();
    const records = paired(requests, counts).map((each) => transactionOf(...each, committedAtMs));
    const answers = paired(requests, counts).flatMap(([{ keyed, transactionId }, each]) =>
      keyed === undefined ? [] : [keyedAnswer(keyed, { transactionId, ...each })],
    );
    try {
      await metrics.writeStage('record', () => catalog.recordTransactions(records, answers));
    } catch (error) {
      logger.error({ transactionIds: records.map(({ id }) => id), error }, 'committed writes could not be recorded');
      throw new LancegateError('Internal', 'the write was committed, but that could not be recorded', { cause: error });
    }
  }

  #measure(requests: Some<WriteRequest>, made: CommittedBatch, countedBy: CountsOfBatch['by']): void {
    const { version, head, surplusRows } = made;
    if (version === head.version) return;
    const { metrics, logger } = this.#deps;
    metrics.commitFinished(requests.length);
    if (countedBy !== undefined) metrics.countsTaken(countedBy);
    if (surplusRows === 0 || this.#hasWarned) return;
    this.#hasWarned = true; // the program that doubles keys does it again and again
    const { table, branch } = requests[0];
    const name = { table: showTable(table.ref), branch: branch ?? 'main' };
    logger.warn({ ...name, surplusRows }, 'keys had several rows, and an upsert left one of each');
  }

  /** Maintenance learns of every version before the next one is begun. */
  #notify({ table, branch }: WriteRequest, { on }: WriteBatch, made: CommittedBatch): void {
    const { version, head } = made;
    if (version === head.version) return;
    this.#deps.observer.committed({
      table: table.ref,
      tableId: table.id,
      branch,
      location: head.location,
      on,
      version,
    });
  }

  /** The write at fault, and no other. Where none is known to be, each is committed by itself. */
  async #refuse(members: Some<BatchMember>, error: unknown): Promise<void> {
    const isAlone = members.length === 1;
    if (error instanceof FaultyPart && !isAlone) {
      members[error.part]?.reject(error);
      const others = members.filter((_, index) => index !== error.part);
      if (isSome(others)) await this.#commitAgain(others);
    } else if (isAlone || !isFaultOfOne(error)) {
      for (const { reject } of members) reject(error);
    } else {
      for (const member of members) await this.#commitAgain([member]);
    }
  }

  async #commitAgain(members: Some<BatchMember>): Promise<void> {
    try {
      await this.start(members, await this.head(members[0].request)).done;
    } catch (error) {
      for (const { reject } of members) reject(error);
    }
  }
}

type Attempt = [requests: Some<WriteRequest>, batch: WriteBatch, head: Head, attempt: number];

/** A batch that was committed to the head. */
interface CommittedBatch extends Committed {
  readonly head: Head;
  readonly attempt: number;
}

interface CountsOfBatch {
  /** The counts of each write, in the order of the writes. */
  readonly each: readonly WriteCounts[];
  readonly by: Counted['by'];
}

/** The commit says what it does for keyed requests, so that their answers can be given although nothing else recorded them. */
function noteOf(requests: readonly WriteRequest[], numAttempts: number): Head['note'] {
  if (requests.every(({ keyed }) => keyed === undefined)) return undefined;
  return (each) => {
    const outcomes = paired(requests, each).flatMap(([{ keyed, transactionId, operation }, totals]) =>
      keyed === undefined ? [] : { attempt: keyed.attempt, transactionId, operation, numAttempts, totals },
    );
    return notedOutcomes(outcomes);
  };
}

const transactionOf = (
  { transactionId: id, operation, table, branch }: WriteRequest,
  counts: WriteCounts,
  committedAtMs: number,
): TransactionRecord => ({
  id,
  tableId: table.id,
  ref: table.ref,
  operation,
  branch,
  version: counts.version,
  outcome: outcomeOf(counts),
  committedAtMs,
});

/** Also where it is a head that was planned and is not there. */
async function isBehind({ dataset, version, turn }: Head): Promise<boolean> {
  if (turn !== undefined && !(await turn.isNext())) return true;
  await dataset.refresh();
  return (await dataset.version()) !== version;
}

/** A deadline, or a service that is stopping, does not count. */
const hasEndedReader = (error: unknown): error is LancegateError =>
  error instanceof LancegateError &&
  error.kind === 'ReaderDied' &&
  ['signal', 'exit', 'memory', 'protocol'].includes(String(error.internal?.reason));

/** Nothing was written, and the same write would fail again. Others of its batch may not fail. */
const isFaultOfOne = (error: unknown): boolean =>
  error instanceof LancegateError && error.entry.written === 'nothing' && error.entry.retry === 'never';

/** The error for what fails once the version is there. It never says that nothing was written (P6). */
const afterCommit = (error: unknown): unknown =>
  error instanceof LancegateError && error.entry.written === 'nothing'
    ? new LancegateError('Internal', 'the write was committed, but it could not be completed', { cause: error })
    : error;
