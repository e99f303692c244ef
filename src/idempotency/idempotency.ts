/**
 * `Idempotency-Key` (P6): a request that changes something and is sent again under its key is not applied again, and gets the
 * first answer. The protocol, and why it is this one, is in docs/design/idempotency.md. In short:
 *
 * - A key belongs to its principal, and stands for one operation on one table with these parameters and this body.
 *   With anything else it is refused, until it expires.
 * - An answer is recorded in the SQL transaction that makes the outcome known: there is no answer without an outcome,
 *   and for creates no outcome without an answer.
 * - A commit to a branch comes before that transaction, so a write intent is recorded first, and the commit notes its attempt and
 *   what it did (`notedOutcomes`). A crash between the two leaves the intent, which the next start or owner settles. If the branch
 *   still is at the version on which the commit was to build, nothing was written and the intent goes. If the version after that
 *   notes the attempt, its answer is recorded and a retry gets it. Any other retry is refused with `OutcomeUnknown` and not
 *   applied, such as where another program has committed in between, or where the engine alone makes the commits.
 * - What does not go through the queue of a branch has no intent (`answeredOnce`). The answer to a change of a name is recorded in the
 *   transaction that changes it. That to a change of tags or branches, a removal of versions or a cascade is recorded right after
 *   it: a crash between the two leaves no record, and the retry is a new request, which finds what the first one did, such as
 *   `TableBranchAlreadyExists`.
 * - Only successes are recorded. A refusal wrote nothing, so the same request may be tried again under the same key.
 * - Of several requests with one key at once, one works and the others wait for its answer, within their own deadlines.
 *   The lock of a key is of this process, as all locks are. Where a table moves to another replica, or a namespace is changed by two,
 *   two attempts may work at once: the catalog records the outcome of one of them.
 *
 * Costs, for requests with a key only: the digest of the body, a catalog look-up, and for merges one more catalog
 * transaction per commit, whatever the number of requests in it.
 */
import { createHash } from 'node:crypto';
import type {
  AnswerOf,
  KeyedAnswer,
  KeyedRequest,
  KeyedRequestCatalog,
  RequestOwner,
  TableCatalog,
  TransactionCatalog,
  TransactionRecord,
  WriteIntent,
} from '../catalog/port.ts';
import { fenceProperty } from '../engine/port/change.ts';
import type { History, Snapshot } from '../engine/port/dataset.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { IdempotencyKey, TableRef } from '../kernel/ids.ts';
import { ReadWriteLock } from '../kernel/read-write-lock.ts';
import { firstOf, principalKey, type RequestScope } from '../kernel/request-scope.ts';
import type { AskedBounds } from '../kernel/write-bounds.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableOwners } from '../table/table-owners.ts';
import type { Logger } from '../telemetry/logger.ts';
import { outcomeNotedFor, outcomeOf } from './noted-outcomes.ts';

/** The request came with an `Idempotency-Key`, and this. */
export interface IdempotencyHeader {
  readonly key: IdempotencyKey;
  /** The SHA-256 of the whole body in hexadecimal; reads the part of it that is still unread. Once only. */
  readonly bodyDigest: () => Promise<string>;
  /** It is the id of a request, which stands for the same request only: with anything else it is another key. */
  readonly isImplied?: true;
}

/** Some have a transaction record, and some only an answer. */
export type RepeatableOperation =
  | TransactionRecord['operation']
  | 'create_tag'
  | 'update_tag'
  | 'delete_tag'
  | 'create_branch'
  | 'delete_branch'
  | 'delete_versions'
  | 'maintain_table'
  | 'declare_table'
  | 'register_table'
  | 'deregister_table'
  | 'drop_table'
  | 'undrop_table'
  | 'purge_dropped_tables'
  | 'rename_table'
  | 'clone_table'
  | 'create_namespace'
  | 'drop_namespace';

/** A command that may carry an `Idempotency-Key`. All its other members but the source decide what it does. */
interface RepeatableCommand {
  readonly source?: unknown;
  readonly idempotency: IdempotencyHeader | undefined;
  readonly bounds?: AskedBounds | undefined;
}

/** The request has an `Idempotency-Key`, and its body may not have been read yet. */
export interface Keyed extends Pick<KeyedRequest, 'owner' | 'key' | 'requestDigest' | 'attempt'> {
  /** Reads what is left of the body. May be called again. */
  request(): Promise<KeyedRequest>;
}

export const keyedAnswer = (request: KeyedRequest, result: object): KeyedAnswer => ({
  ...request,
  answer: JSON.stringify(result),
});

/** `isReplay`: the answer is that to another request with this key. */
export type Replayable<Result> = Result & { readonly isReplay: boolean };

/** An operation that has no other fields answers with this alone, and it may be nothing. */
interface SoleResult<Result> {
  readonly result: Result;
}

/** Makes an operation that knows no keys. What it changes in the catalog it can record together with the answer, by `answered`. */
export type MakesUnkeyed<Deps, Command, Result> = (
  deps: Deps,
) => (command: Command, scope: RequestScope, answered: AnswerOf<Result> | undefined) => Promise<Result>;

/**
 * Makes an operation that answers each key once, of one that knows no keys: it is done, then its answer is recorded. What the first
 * request was asked from inside the operation, such as the right on the branch of a tag, a retry is not asked again.
 */
export const answeredOnce =
  <Deps, Command, Result>(operation: RepeatableOperation, make: MakesUnkeyed<Deps, Command, Result>) =>
  (deps: Deps & { readonly idempotency: Idempotency }) => {
    const work = make(deps);
    return (command: Command & RepeatableCommand, scope: RequestScope): Promise<Replayable<SoleResult<Result>>> =>
      deps.idempotency.onceThenRecorded(operation, command, scope, (answered) => work(command, scope, answered));
  };

/** Makes the answer to a keyed request of what the catalog has done. */
export const answeredBy = <Done, Result>(
  answered: AnswerOf<Result> | undefined,
  resultOf: (done: Done) => Result,
): AnswerOf<Done> | undefined => answered && ((done) => answered(resultOf(done)));

export class Idempotency {
  readonly #catalog: KeyedRequestCatalog & TableCatalog & TransactionCatalog;
  readonly #access: TableAccess;
  readonly #owners: Pick<TableOwners, 'hold'> | undefined;
  readonly #clock: Clock;
  readonly #newId: NewId;
  readonly #logger: Logger;
  readonly #keptMs: number;
  /** A key without requests has no lock, so there are no more locks than requests (P7). */
  readonly #locks = new Map<string, ReadWriteLock>();

  constructor(parts: {
    catalog: KeyedRequestCatalog & TableCatalog & TransactionCatalog;
    access: TableAccess;
    /** Without it every name is this process's own. */
    owners?: Pick<TableOwners, 'hold'>;
    clock: Clock;
    newId: NewId;
    logger: Logger;
    /** How long a client can ask for an answer again. */
    idempotencyKeptMs: number;
  }) {
    this.#catalog = parts.catalog;
    this.#access = parts.access;
    this.#owners = parts.owners;
    this.#clock = parts.clock;
    this.#newId = parts.newId;
    this.#logger = parts.logger;
    this.#keptMs = parts.idempotencyKeptMs;
  }

  /**
   * Runs `work` unless its key has an answer already. `work` records the answer together with its outcome. Throws what
   * `work` throws; `InvalidInput` for a key that stands for something else, `OutcomeUnknown`, `SlowDown` where too many
   * wait for the key.
   */
  async once<Result extends object>(
    operation: RepeatableOperation,
    command: RepeatableCommand,
    scope: RequestScope,
    work: (keyed: Keyed | undefined) => Promise<Result>,
  ): Promise<Replayable<Result>> {
    const { idempotency } = command;
    // A dry run has no outcome: the same request without it may have the same key.
    if (idempotency === undefined || command.bounds?.dryRun === true)
      return { ...(await work(undefined)), isReplay: false };
    const owner = principalKey(scope.principal) as RequestOwner;
    const digest = requestDigest(operation, command);
    const isImplied = idempotency.isImplied === true;
    const key = isImplied ? await impliedKey(idempotency, digest) : idempotency.key;
    const known = { owner, key, requestDigest: digest, attempt: this.#newId() };
    const askedAtMs = this.#clock.nowMs();
    // The SDKs repeat a request within seconds.
    const expiresAtMs = askedAtMs + (isImplied ? 10 * 60_000 : this.#keptMs);
    let whole: Promise<KeyedRequest> | undefined;
    const request = (): Promise<KeyedRequest> => {
      whole ??= idempotency.bodyDigest().then((bodyDigest) => ({ ...known, bodyDigest, expiresAtMs, askedAtMs }));
      return whole;
    };
    const keyed = { ...known, request };
    return this.#locked(keyed, scope.signal, async () => {
      const first = await this.#firstAnswer<Result>(keyed, scope.signal);
      if (first !== undefined) return { ...first, isReplay: true };
      return { isReplay: false, ...(await this.#work(keyed, work)) };
    });
  }

  async #locked<Result>({ owner, key }: Keyed, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    const name = JSON.stringify([owner, key]);
    // Clients retry one at a time; a client of which more requests wait has gone wrong.
    const lock = this.#locks.get(name) ?? new ReadWriteLock(15, 'requests with this Idempotency-Key');
    this.#locks.set(name, lock);
    try {
      const release = await lock.acquire('exclusive', signal);
      try {
        return await work();
      } finally {
        release();
      }
    } finally {
      if (lock.isIdle && this.#locks.get(name) === lock) this.#locks.delete(name);
    }
  }

  /** Undefined for a key that is new, has expired, or stands for a commit that was not made. */
  async #firstAnswer<Result>(keyed: Keyed, signal: AbortSignal): Promise<Result | undefined> {
    const known = await this.#catalog.findKeyed(keyed.owner, keyed.key);
    if (known === undefined || known.expiresAtMs <= this.#clock.nowMs()) return undefined;
    if (!('answer' in known)) {
      const holding = this.#owners?.hold(known.ref);
      if (holding !== undefined) {
        await firstOf(holding, signal); // what its last owner left is settled then
        return this.#firstAnswer(keyed, signal);
      }
      if (await this.#wasNotMade(known)) return undefined;
    }
    if (known.requestDigest !== keyed.requestDigest) throw otherContent('parameters');
    if (known.bodyDigest !== (await keyed.request()).bodyDigest) throw otherContent('body');
    if (!('answer' in known))
      throw new LancegateError(
        'OutcomeUnknown',
        'the first request with this Idempotency-Key was interrupted while it committed, and whether its rows are in the table is not known; it was not applied again',
      );
    return JSON.parse(known.answer) as Result;
  }

  async #work<Result>(keyed: Keyed, work: (keyed: Keyed) => Promise<Result>): Promise<Result> {
    try {
      return await work(keyed);
    } catch (error) {
      const wroteNothing = error instanceof LancegateError && error.entry.written === 'nothing';
      if (wroteNothing) await this.#catalog.withdrawIntent(keyed);
      throw error;
    }
  }

  /**
   * As `once`, of `work` that may record its answer itself: in a transaction that is given `answered`, and whose refusals it throws.
   * Otherwise the answer is recorded right after the work. `Internal` where it could not be: the work is done then, and a retry does
   * not learn of it.
   */
  onceThenRecorded<Result>(
    operation: RepeatableOperation,
    command: RepeatableCommand,
    scope: RequestScope,
    work: (answered: AnswerOf<Result> | undefined) => Promise<Result>,
  ): Promise<Replayable<SoleResult<Result>>> {
    return this.once(operation, command, scope, async (keyed) => {
      if (keyed === undefined) return { result: await work(undefined) };
      const request = await keyed.request();
      using _room = this.#catalog.reserveRoom(0, 1);
      let isRecorded = false;
      const answered = (result: Result): KeyedAnswer => {
        isRecorded = true;
        return keyedAnswer(request, { result });
      };
      return await this.#unlessAnsweredElsewhere(keyed, scope.signal, async () => {
        const answer = { result: await work(answered) };
        if (isRecorded) return answer;
        await this.#catalog.recordTransactions([], [keyedAnswer(request, answer)]).catch((cause: unknown) => {
          const message = 'what the request asked for was done, and its answer could not be recorded';
          throw new LancegateError('Internal', message, { cause });
        });
        return answer;
      });
    });
  }

  /**
   * Two replicas may work for one key at once, where a name has no owner or has just moved. The later one finds the work done, or the
   * answer recorded: then the recorded one is its answer, too.
   */
  async #unlessAnsweredElsewhere<Result extends object>(
    keyed: Keyed,
    signal: AbortSignal,
    work: () => Promise<Result>,
  ): Promise<Result & { readonly isReplay?: true }> {
    try {
      return await work();
    } catch (error) {
      // compensated: without an answer to this request, the client learns why the work failed
      const first = await this.#firstAnswer<Result>(keyed, signal).catch(() => undefined);
      if (first === undefined) throw error;
      return { ...first, isReplay: true };
    }
  }

  /** Settles one table, or all, when interrupted commits are undone and before new ones begin. */
  async settle(table?: TableRef): Promise<void> {
    for (const intent of await this.#catalog.writeIntents(table)) {
      if ((await this.#wasNotMade(intent)) || (await this.#answerNoted(intent))) continue;
      const { ref, branch, baseVersion } = intent;
      this.#logger.warn(
        { table: ref, branch, baseVersion },
        'the outcome of a write with an Idempotency-Key is unknown',
      );
    }
  }

  /** Returns true if it was certainly not; then the write intent is gone. `WriterMoved` where another process owns the table by now. */
  async #wasNotMade(intent: WriteIntent): Promise<boolean> {
    const newest = await this.#newestOf(intent);
    if (newest === undefined || (newest.version > intent.baseVersion && !newest.isFencedOff)) return false;
    await this.#catalog.withdrawIntent(intent);
    return true;
  }

  /** True if the commit says what it did for the intent; then that is recorded. The commit is durable. */
  async #answerNoted(intent: WriteIntent): Promise<boolean> {
    const { ref, tableId, branch, attempt } = intent;
    const version = intent.baseVersion + 1;
    const transaction = await this.#read(intent, (dataset) => dataset.transactionOf(version));
    const noted = transaction && outcomeNotedFor(attempt, transaction.properties);
    if (noted === undefined) return false;
    const { transactionId, operation, numAttempts, totals } = noted;
    const about = { id: transactionId, tableId, ref, operation, branch, version };
    const record = { ...about, outcome: outcomeOf(totals), committedAtMs: this.#clock.nowMs() };
    const answer = keyedAnswer(intent, { transactionId, ...totals, version, numAttempts });
    await this.#catalog.recordTransactions([record], [answer]);
    return true;
  }

  #newestOf(intent: WriteIntent): Promise<NewestVersion | undefined> {
    return this.#read(intent, async (dataset) => {
      const version = await dataset.version();
      const next = version > intent.baseVersion ? await dataset.transactionOf(intent.baseVersion + 1) : undefined;
      return { version, isFencedOff: next?.properties[fenceProperty] !== undefined };
    });
  }

  /** Undefined if the branch does not exist any more, or cannot be read. */
  async #read<Result>(
    { ref, tableId, branch }: WriteIntent,
    read: (dataset: Snapshot & History) => Promise<Result>,
  ): Promise<Result | undefined> {
    const record = await this.#catalog.findTable(ref);
    if (record?.id !== tableId) return undefined;
    try {
      return await this.#access.read(record, branch, undefined, read);
    } catch (error) {
      this.#logger.warn({ table: ref, branch, error }, 'the commit of a write intent could not be looked for');
      return undefined;
    }
  }
}

interface NewestVersion {
  readonly version: number;
  /** True where another version has taken the number that the commit of the intent would get: it cannot be made any more. */
  readonly isFencedOff: boolean;
}

async function impliedKey({ key, bodyDigest }: IdempotencyHeader, digest: string): Promise<IdempotencyKey> {
  const content = JSON.stringify([key, digest, await bodyDigest()]);
  return `x-request-id:${createHash('sha256').update(content).digest('hex')}` as IdempotencyKey;
}

/**
 * Of everything that decides what the request does, as it was understood: spelling and order of the parameters make no
 * difference, and how long the client wants to wait is no part of it; nor are the questions that an operation asks (functions).
 */
function requestDigest(operation: RepeatableOperation, command: RepeatableCommand): string {
  const { source: _, idempotency: __, ...asked } = command;
  return createHash('sha256')
    .update(JSON.stringify([operation, asked], inOrder))
    .digest('hex');
}

/** `JSON.stringify` gets objects with their names in order by it. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

const otherContent = (what: 'parameters' | 'body'): LancegateError =>
  invalidInput(
    what === 'body'
      ? 'idempotency-key: the key was used before with another body'
      : 'idempotency-key: the key was used before for another operation, table or parameters',
  );
