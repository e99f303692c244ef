import { type Kysely, sql } from 'kysely';
import { type Clock, untilPassed } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { CatalogDb, CatalogSchema } from '../queries/catalog-db.ts';
import type { SqlSession } from '../sql-catalog.ts';
import { CommitUnanswered, ConnectionLost, faultOf, NoConnection, refusalOf } from './postgres-faults.ts';

/** It returns numbers from 0 up to 1, as `Math.random` does. */
export type Random = () => number;

/** No pause is longer before a transaction that was overtaken is repeated. */
const longestPauseMs = 100;

/**
 * Serialisable transactions, of which PostgreSQL refuses some for the sake of others: those are repeated, after a random pause.
 * What finds its connection lost is repeated once, on another one, since the server undoes it. A `COMMIT` that was not answered
 * is looked up, so that nothing is done twice and nothing that was done is reported as not done.
 */
export class PostgresSession implements SqlSession {
  readonly #db: Kysely<CatalogSchema>;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(db: Kysely<CatalogSchema>, clock: Clock, random: Random) {
    this.#db = db;
    this.#clock = clock;
    this.#random = random;
  }

  read<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    return this.#run(onceMore(() => work(this.#db)));
  }

  transact<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    return this.#run(this.#untilNotOvertaken(() => onceMore(() => this.#transactOnce(work))));
  }

  transactInRoom<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    return this.transact(work);
  }

  /** Needs no look for the outcome of a `COMMIT`: the next one brings it about, or finds it. */
  insist<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    return this.#run(this.#whileItMayHeal(() => this.#untilNotOvertaken(() => this.#serialisable(work))));
  }

  /** There is nothing to reserve: the disk is the server's. */
  reserveRoom(): Disposable {
    return { [Symbol.dispose]: () => undefined };
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#underWay);
    await this.#db.destroy();
  }

  async #run<Result>(work: Promise<Result>): Promise<Result> {
    this.#underWay.add(work);
    try {
      return await work;
    } catch (error) {
      throw error instanceof LancegateError ? error : refusalOf(error);
    } finally {
      this.#underWay.delete(work);
    }
  }

  async #untilNotOvertaken<Result>(transact: () => Promise<Result>): Promise<Result> {
    for (let round = 1; ; round++) {
      try {
        return await transact();
      } catch (error) {
        // One of those who contend for a name wins each time, so this many may contend.
        if (faultOf(error) !== 'overtaken' || round === 64) throw error;
        await this.#pause(Math.min(2 ** round, longestPauseMs));
      }
    }
  }

  async #whileItMayHeal<Result>(transact: () => Promise<Result>): Promise<Result> {
    // A failover or a restart of the database is over by then, or lasts.
    const untilMs = this.#clock.nowMs() + 30_000;
    let unanswered: CommitUnanswered | undefined;
    for (;;) {
      try {
        return await transact();
      } catch (error) {
        if (error instanceof LancegateError) throw error;
        if (error instanceof CommitUnanswered) unanswered = error;
        const mayHeal = ['overtaken', 'lost', 'refuses'].includes(faultOf(error));
        if (!mayHeal || this.#clock.nowMs() >= untilMs) throw unanswered ?? error;
        await this.#pause(longestPauseMs);
      }
    }
  }

  #serialisable<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    return this.#db.transaction().setIsolationLevel('serializable').execute(work);
  }

  async #transactOnce<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    let made: { readonly result: Result } | undefined;
    const run = async (db: CatalogDb): Promise<Result> => {
      const result = await work(db);
      made = { result };
      return result;
    };
    try {
      return await this.#serialisable(run);
    } catch (error) {
      if (!(error instanceof CommitUnanswered) || made === undefined) throw error;
      if (await this.#wasCommitted(error)) return made.result;
      throw new ConnectionLost('the transaction was undone', { cause: error });
    }
  }

  /** Throws what it is given where that cannot be said: the server was started again, or another one took its place. */
  async #wasCommitted(unanswered: CommitUnanswered): Promise<boolean> {
    // How long the outcome of a `COMMIT` without an answer is looked for: until the server has ended a transaction
    // whose `COMMIT` never arrived. With the six seconds after which a silent server is missed, the caller learns that
    // the outcome is not known.
    const untilMs = this.#clock.nowMs() + 5_000;
    for (;;) {
      const status = await this.#statusOf(unanswered);
      if (status === 'committed') return true;
      if (status === 'aborted') return false;
      if (status === undefined || this.#clock.nowMs() >= untilMs) throw unanswered;
      await this.#pause(longestPauseMs);
    }
  }

  async #statusOf({ transactionId, serverStart }: CommitUnanswered): Promise<string | undefined> {
    const query = sql<{ status: string | null }>`select case
      when extract(epoch from pg_postmaster_start_time())::text = ${serverStart}
      then pg_xact_status(${transactionId}::xid8) end as status`;
    try {
      const { rows } = await query.execute(this.#db);
      return rows[0]?.status ?? undefined;
    } catch (error) {
      if (faultOf(error) === 'unexpected') throw error;
      return 'not known yet';
    }
  }

  /** Up to that long, so that those who met do not meet again. */
  #pause(upToMs: number): Promise<void> {
    return untilPassed(this.#clock, this.#random() * upToMs);
  }
}

/** It repeats the work on another connection, where one was had and was lost. */
async function onceMore<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (faultOf(error) !== 'lost' || error instanceof CommitUnanswered || error instanceof NoConnection) throw error;
    return work();
  }
}
