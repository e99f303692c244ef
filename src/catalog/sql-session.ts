import type { CatalogDb } from './queries/catalog-db.ts';

/**
 * What an SQL engine owes the catalog. The queries check, then write; they are right only because transactions are
 * serialisable, so an adapter that cannot run them one by one must ask its database for that and repeat the losers.
 * The constraints of the schema are the safety net below, not the mechanism.
 *
 * Both methods pass a `LancegateError` through and turn every other failure into `Internal`, or `StorageFull`.
 */
export interface SqlSession {
  /** Outside a transaction: for work that is a single query, or whose queries need not agree. */
  read<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /** Serialisable; durable when it resolves; undone when `work` throws. */
  transact<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /** Waits for what is under way. */
  close(): Promise<void>;
}
