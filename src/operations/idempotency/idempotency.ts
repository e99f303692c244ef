/**
 * `Idempotency-Key` (P6): a create or merge that is sent again under its key is not applied again and gets the first
 * answer. The protocol, and why it is this one, is in docs/adr/0007-idempotency.md. In short:
 *
 * - A key belongs to its principal, and stands for one operation on one table with these parameters and this body.
 *   With anything else it is refused, until it expires.
 * - An answer is recorded in the SQL transaction that makes the outcome known: there is no answer without an outcome,
 *   and for creates no outcome without an answer.
 * - The engine's commit of a merge comes before that transaction, so it is announced in the catalog first. A crash
 *   between the two leaves the announcement. If the table still is at the version the commit was to build on, nothing
 *   was written and the announcement goes; if not, the retry is told that the outcome is unknown, and is not applied.
 * - Only successes are recorded. A refusal wrote nothing, so the same request may be tried again under the same key.
 * - Of several requests with one key at once, one works and the others wait for its answer, within their own deadlines.
 *   Waiting is of this process, as all turns are.
 *
 * Costs, for requests with a key only: the digest of the body, a catalog look-up, and for merges one more catalog
 * transaction per commit, whatever the number of requests in it.
 */
import type { Catalog, KeyedCommit } from '../../catalog/port.ts';
import type { Clock } from '../../kernel/clock.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { KeyLocks } from './key-locks.ts';
import { type Keyed, keyedRequest, ownerOf, type RepeatableCommand, requestDigest } from './keyed-request.ts';

type Operation = 'create_table' | 'merge_insert';

/** `isReplay`: an earlier request with this key got this answer; this one did nothing. */
export type Replayable<Result> = Result & { readonly isReplay: boolean };

export class Idempotency {
  readonly #catalog: Catalog;
  readonly #access: TableAccess;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #keptMs: number;
  readonly #locks = new KeyLocks();

  constructor(parts: {
    catalog: Catalog;
    access: TableAccess;
    clock: Clock;
    logger: Logger;
    /** How long an answer can be asked for again. */
    idempotencyKeptMs: number;
  }) {
    this.#catalog = parts.catalog;
    this.#access = parts.access;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#keptMs = parts.idempotencyKeptMs;
  }

  /**
   * Runs `work` unless its key has an answer already. `work` records the answer together with its outcome. Throws what
   * `work` throws; `InvalidInput` for a key that stands for something else, `OutcomeUnknown`, `SlowDown` where too many
   * wait for the key.
   */
  async once<Result extends object>(
    operation: Operation,
    command: RepeatableCommand,
    scope: RequestScope,
    work: (keyed: Keyed | undefined) => Promise<Result>,
  ): Promise<Replayable<Result>> {
    const { idempotency } = command;
    if (idempotency === undefined) return { ...(await work(undefined)), isReplay: false };
    const expiresAtMs = this.#clock.nowMs() + this.#keptMs;
    const keyed = keyedRequest(idempotency, ownerOf(scope.principal), requestDigest(operation, command), expiresAtMs);
    const leave = await this.#locks.acquire(keyed, scope.signal);
    try {
      const first = await this.#firstAnswer<Result>(keyed);
      if (first !== undefined) return { ...first, isReplay: true };
      return { ...(await this.#work(keyed, work)), isReplay: false };
    } finally {
      leave();
    }
  }

  /** At start, when interrupted commits are undone and before new ones begin. */
  async settle(): Promise<void> {
    for (const commit of await this.#catalog.announcedCommits()) {
      if (await this.#wasNotMade(commit)) continue;
      const { ref: table, branch, baseVersion } = commit;
      this.#logger.warn({ table, branch, baseVersion }, 'the outcome of a merge with an Idempotency-Key is unknown');
    }
  }

  /** Undefined for a key that is new, has expired, or stands for a commit that was not made. */
  async #firstAnswer<Result>(keyed: Keyed): Promise<Result | undefined> {
    const known = await this.#catalog.findKeyed(keyed.owner, keyed.key);
    if (known === undefined || known.expiresAtMs <= this.#clock.nowMs()) return undefined;
    if (!('answer' in known) && (await this.#wasNotMade(known))) return undefined;
    if (known.requestDigest !== keyed.requestDigest) throw otherContent('parameters');
    if (known.bodyDigest !== (await keyed.request()).bodyDigest) throw otherContent('body');
    if (!('answer' in known)) throw outcomeUnknown();
    return JSON.parse(known.answer) as Result;
  }

  async #work<Result>(keyed: Keyed, work: (keyed: Keyed) => Promise<Result>): Promise<Result> {
    try {
      return await work(keyed);
    } catch (error) {
      const wroteNothing = error instanceof LancegateError && error.entry.written === 'nothing';
      if (wroteNothing) await this.#catalog.withdrawCommit(keyed);
      throw error;
    }
  }

  /** True if certainly not; then the announcement is gone. */
  async #wasNotMade(commit: KeyedCommit): Promise<boolean> {
    const version = await this.#newestVersion(commit);
    if (version === undefined || version > commit.baseVersion) return false;
    await this.#catalog.withdrawCommit(commit);
    return true;
  }

  /** Undefined where the branch is not there any more, or cannot be read. */
  async #newestVersion({ ref, tableId, branch }: KeyedCommit): Promise<number | undefined> {
    const record = await this.#catalog.findTable(ref);
    if (record?.id !== tableId) return undefined;
    try {
      return await this.#access.read(record, branch, undefined, (dataset) => dataset.version());
    } catch (error) {
      this.#logger.warn({ table: ref, branch, error }, 'the commit of a write intent could not be looked for');
      return undefined;
    }
  }
}

const otherContent = (what: 'parameters' | 'body'): LancegateError =>
  invalidInput(
    what === 'body'
      ? 'idempotency-key: the key was used before with another body'
      : 'idempotency-key: the key was used before for another operation, table or parameters',
  );

const outcomeUnknown = (): LancegateError =>
  new LancegateError(
    'OutcomeUnknown',
    'the first request with this Idempotency-Key was interrupted while it committed, and whether its rows are in the table is not known; it was not applied again',
  );
