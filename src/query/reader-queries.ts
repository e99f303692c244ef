import type { IpcFile } from '../arrow/format/ipc-file.ts';
import type { MergeCounts } from '../engine/port/merge-spec.ts';
import type { PlanForm, QuerySpec } from '../engine/port/query-spec.ts';
import type { ReaderChange, ReaderChanges, ReaderReading, VersionTrial } from '../engine/port/reader-work.ts';
import type { CheckedSql } from '../kernel/checked-sql.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError, timedOut } from '../kernel/errors.ts';
import { firstOf, principalKey, type RequestScope } from '../kernel/request-scope.ts';
import type { AnswerForm } from '../rows/answer-form.ts';
import { framedFiles } from './framed-files.ts';
import { expectAnswer, type Queries, type QueryResult, type ReadAt, type Reading } from './protocol.ts';
import type { ReaderPool } from './reader-pool.ts';
import { RelayedResult } from './relayed-result.ts';
import type { ResultSpools } from './result-spool.ts';

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
  readonly #lineages = new WeakMap<symbol, string>();
  #lastLineage = 0;

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

  async count(reading: Reading, predicate: CheckedSql, scope: RequestScope): Promise<number> {
    const order = { at: this.#readAt(reading), work: { kind: 'count', predicate }, extraBytes: 0 } as const;
    const requester = { principal: principalKey(scope.principal), signal: scope.signal };
    // Rejects at the deadline itself; the pool deals with the reader afterwards.
    return expectAnswer(await firstOf(this.#pool.ask(order, requester), scope.signal), 'counted').rows;
  }

  async query(reading: Reading, spec: QuerySpec, form: AnswerForm, scope: RequestScope): Promise<QueryResult> {
    const order = { at: this.#readAt(reading), work: { kind: 'query', spec, answer: form }, extraBytes: 0 } as const;
    const principal = principalKey(scope.principal);
    const result = new RelayedResult({
      signal: scope.signal,
      clock: this.#clock,
      spool: this.#spools.spoolFor(principal),
      isReaderWanted: (by) => this.#pool.isReaderWanted({ principal, work: 'reading' }, by),
    });
    const { signal, take } = result;
    result.follow(this.#pool.ask(order, { principal, signal, take }));
    await result.started;
    return result;
  }

  async explain(reading: Reading, spec: QuerySpec, form: PlanForm, scope: RequestScope): Promise<string> {
    const order = { at: this.#readAt(reading), work: { kind: 'explain', spec, form }, extraBytes: 0 } as const;
    const requester = { principal: principalKey(scope.principal), signal: scope.signal };
    return expectAnswer(await firstOf(this.#pool.ask(order, requester), scope.signal), 'explained').plan;
  }

  /** Settles only when the reader has answered or ended, so that nothing can still commit. */
  async change(change: ReaderChange): Promise<MergeCounts> {
    const { store, location, branch, lineage, version, step, file, timeoutMs, principal } = change;
    const at: ReadAt = { store, location, branch, version, isExact: false, lineage: this.#nameOf(lineage) };
    const deadline = new AbortController();
    const cancel = this.#abortAfter(timeoutMs, deadline);
    try {
      const requester = { principal: principal ?? '', signal: deadline.signal };
      const extraBytes = this.#changeBytes + 4 * (file?.length ?? 0);
      const order = { at, work: { kind: 'change', step, timeoutMs }, extraBytes } as const;
      return expectAnswer(await this.#pool.ask(order, requester, file), 'changed').counts;
    } catch (error) {
      throw deadline.signal.aborted ? timedOut(error) : error;
    } finally {
      cancel();
    }
  }

  /** Ends only when the reader has answered or ended, so that what it reads may be removed. */
  async *read(reading: ReaderReading): AsyncIterable<IpcFile> {
    const { store, location, branch, version, timeoutMs, principal, ...what } = reading;
    const at: ReadAt = { store, location, branch, version, isExact: true, lineage: '' };
    const deadline = new AbortController();
    const cancel = this.#abortAfter(timeoutMs, deadline);
    const result = new RelayedResult({
      signal: deadline.signal,
      clock: this.#clock,
      spool: this.#spools.spoolFor(principal ?? ''),
      isReaderWanted: () => false, // its rows go no further than the service
    });
    const { signal, take } = result;
    const order = { at, work: { kind: 'read', what }, extraBytes: 0 } as const;
    const asked = this.#pool.ask(order, { principal: principal ?? '', signal, take });
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

  async #faultOf({ store, location, branch, version, toTry, timeoutMs, principal }: VersionTrial) {
    const at: ReadAt = { store, location, branch, version, isExact: false, lineage: this.#nameOf(Symbol('trial')) };
    const deadline = new AbortController();
    const cancel = this.#abortAfter(timeoutMs, deadline);
    try {
      const requester = { principal: principal ?? '', signal: deadline.signal };
      const order = { at, work: { kind: 'trial', toTry }, extraBytes: 0 } as const;
      return expectAnswer(await this.#pool.ask(order, requester), 'tried').fault;
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

  #readAt(reading: Reading): ReadAt {
    const { location, branch } = reading;
    const dataset = { store: 'root', location, branch } as const;
    return 'lineage' in reading
      ? { ...dataset, version: reading.atLeastVersion, isExact: false, lineage: this.#nameOf(reading.lineage) }
      : { ...dataset, version: reading.version, isExact: true, lineage: '' };
  }

  /** A symbol cannot be sent. */
  #nameOf(lineage: symbol): string {
    const known = this.#lineages.get(lineage);
    if (known !== undefined) return known;
    this.#lastLineage += 1;
    const name = String(this.#lastLineage);
    this.#lineages.set(lineage, name);
    return name;
  }
}
