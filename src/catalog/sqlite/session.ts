import type { Kysely } from 'kysely';
import { LancegateError } from '../../kernel/errors.ts';
import type { CatalogDb, CatalogSchema } from '../queries/schema.ts';
import type { SqlSession } from '../sql-session.ts';
import { refusalOf } from './faults.ts';

/** One connection; Kysely hands it to one query or transaction at a time, so transactions are serialisable. */
export class SqliteSession implements SqlSession {
  readonly #db: Kysely<CatalogSchema>;
  readonly #requireFile: () => void;
  readonly #underWay = new Set<Promise<unknown>>();

  /** `requireFile` throws where the file has gone: SQLite would go on in what nobody finds at the next start (P3). */
  constructor(db: Kysely<CatalogSchema>, requireFile: () => void = () => undefined) {
    this.#db = db;
    this.#requireFile = requireFile;
  }

  read<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    return this.#run(work(this.#db));
  }

  transact<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result> {
    const transaction = async (): Promise<Result> => {
      this.#requireFile();
      return this.#db.transaction().execute(work);
    };
    return this.#run(transaction());
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
}
