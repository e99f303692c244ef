import { randomUUID } from 'node:crypto';
import type { IpcFile } from '../arrow/format/ipc-file.ts';
import type { RowsOfFragment } from '../engine/port/dataset.ts';
import type { MergeCounts } from '../engine/port/merge-spec.ts';
import type { PlanForm, QuerySpec } from '../engine/port/query-spec.ts';
import type { ReaderChange, ReaderChanges, ReaderReading, VersionTrial } from '../engine/port/reader-work.ts';
import type { CheckedSql } from '../kernel/checked-sql.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError, timedOut } from '../kernel/errors.ts';
import { firstOf, principalKey, type RequestScope } from '../kernel/request-scope.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import { framedFiles } from './framed-files.ts';
import {
  type Answered,
  type AskedChanges,
  expectAnswer,
  type Order,
  type Queries,
  type QueryResult,
  type ReadAt,
} from './protocol.ts';
import type { ReaderPool } from './reader-pool.ts';
import { RelayedResult, type ResultSpools } from './relayed-result.ts';
import type { ListedRows } from './row-changes.ts';

/** So many processes end before what they read counts as the cause. */
const mostDeaths = 2;

/**
 * Makes orders to the readers of what clients want of the engine: queries, steps of writes, rows of views, trials of versions.
 */
export class ReaderQueries implements Queries, ReaderChanges {
  readonly #pool: ReaderPool;
  readonly #clock: Clock;
  readonly #spools: ResultSpools;
  readonly #changeBytes: number;

  /**
   * A change may take `changeBytes` in addition to its reader's memory and four times its rows, which is what the engine takes
   * to merge them; the memory plan reserves as much with each body.
   */
  constructor(pool: ReaderPool, spools: ResultSpools, clock: Clock, changeBytes: number) {
    this.#pool = pool;
    this.#spools = spools;
    this.#clock = clock;
    this.#changeBytes = changeBytes;
  }

  async count(at: ReadAt, predicate: CheckedSql, scope: RequestScope): Promise<number> {
    return expectAnswer(await this.#ask({ at, work: { kind: 'count', predicate } }, scope), 'counted').rows;
  }

  query(at: ReadAt, spec: QuerySpec, form: AnswerForm, scope: RequestScope): Promise<QueryResult> {
    return this.#relayed({ at, work: { kind: 'query', spec, answer: form } }, scope);
  }

  changes({ location, branch, until, rows, ...wanted }: AskedChanges, form: AnswerForm, scope: RequestScope) {
    const sent = (each: RowsOfFragment & { readonly version?: number }): ListedRows => ({
      fragment: each.fragment,
      count: each.count,
      isListed: each.offsets !== undefined,
      version: each.version ?? until,
    });
    const [removed, added] = [rows.removed.map(sent), rows.added.map(sent)];
    const offsets = [...rows.removed, ...rows.added].flatMap((each) => each.offsets ?? []);
    const listed = offsets.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength));
    const spec = { ...wanted, removed, added };
    const work = { kind: 'changes', spec, answer: form } as const;
    const at: ReadAt = { store: 'root', location, branch, version: until };
    return this.#relayed({ at, work }, scope, Buffer.concat(listed));
  }

  async #relayed(order: Order, scope: RequestScope, bytes?: Uint8Array): Promise<QueryResult> {
    const principal = principalKey(scope.principal);
    const result = new RelayedResult({
      signal: scope.signal,
      clock: this.#clock,
      spool: this.#spools.spoolFor(principal),
      isReaderWanted: (by) => this.#pool.isReaderWanted({ principal, work: 'reading' }, by),
    });
    const { signal, take } = result;
    result.follow(this.#pool.ask(order, { principal, signal, take }, bytes));
    await result.started;
    return result;
  }

  async explain(at: ReadAt, spec: QuerySpec, form: PlanForm, scope: RequestScope): Promise<string> {
    return expectAnswer(await this.#ask({ at, work: { kind: 'explain', spec, form } }, scope), 'explained').plan;
  }

  /** Rejects at the deadline itself; the pool deals with the reader afterwards. */
  #ask(order: Order, { principal, signal }: RequestScope): Promise<Answered> {
    return firstOf(this.#pool.ask(order, { principal: principalKey(principal), signal }), signal);
  }

  /** Settles only when the reader has answered or ended, so that nothing can still commit. */
  async change(change: ReaderChange): Promise<MergeCounts> {
    const { store, location, branch, lineage, version, step, file, timeoutMs, principal } = change;
    const at: ReadAt = { store, location, branch, version, lineage };
    const extraBytes = this.#changeBytes + 4 * (file?.length ?? 0);
    const order: Order = { at, work: { kind: 'change', step, timeoutMs }, extraBytes };
    return this.#within(timeoutMs, async (signal) => {
      const answered = await this.#pool.ask(order, { principal: principal ?? '', signal }, file);
      return expectAnswer(answered, 'changed').counts;
    });
  }

  /** Ends only when the reader has answered or ended, so that what it reads may be removed. */
  async *read(reading: ReaderReading): AsyncIterable<IpcFile> {
    const { store, location, branch, version, timeoutMs, principal, ...what } = reading;
    const at: ReadAt = { store, location, branch, version };
    const deadline = new AbortController();
    const cancel = this.#abortAfter(timeoutMs, deadline);
    const result = new RelayedResult({
      signal: deadline.signal,
      clock: this.#clock,
      spool: this.#spools.spoolFor(principal ?? ''),
      isReaderWanted: () => false, // its rows go no further than the service
    });
    const { signal, take } = result;
    const asked = this.#pool.ask({ at, work: { kind: 'read', what } }, { principal: principal ?? '', signal, take });
    result.follow(asked);
    try {
      yield* framedFiles(result.parts);
    } catch (error) {
      throw deadline.signal.aborted ? timedOut(error) : error;
    } finally {
      await Promise.allSettled([asked]);
      cancel();
    }
  }

  /** A process that dies for another reason, such as its memory, is not to be taken for one that the version killed. */
  async fault(trial: VersionTrial): Promise<string | undefined> {
    for (let deaths = 0; deaths < mostDeaths; deaths += 1) {
      try {
        return await this.#faultOf(trial);
      } catch (error) {
        if (!(error instanceof LancegateError)) throw error;
        if (error.kind === 'Internal') return 'its files cannot be read by it';
        if (error.entry.retry === 'never') return error.message;
        if (error.kind !== 'ReaderDied') throw error;
      }
    }
    return 'the process that read it ended';
  }

  #faultOf({ store, location, branch, version, toTry, timeoutMs, principal }: VersionTrial) {
    const at: ReadAt = { store, location, branch, version, lineage: randomUUID() };
    return this.#within(timeoutMs, async (signal) => {
      const order: Order = { at, work: { kind: 'trial', toTry } };
      return expectAnswer(await this.#pool.ask(order, { principal: principal ?? '', signal }), 'tried').fault;
    });
  }

  async #within<Result>(timeoutMs: number | undefined, run: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const deadline = new AbortController();
    const cancel = this.#abortAfter(timeoutMs, deadline);
    try {
      return await run(deadline.signal);
    } catch (error) {
      throw deadline.signal.aborted ? timedOut(error) : error;
    } finally {
      cancel();
    }
  }

  #abortAfter(timeoutMs: number | undefined, controller: AbortController): () => void {
    if (timeoutMs === undefined) return () => undefined;
    return this.#clock.schedule(timeoutMs, () => controller.abort(timedOut()));
  }
}
