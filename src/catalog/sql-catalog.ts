/**
 * The catalog over an SQL database, the same for every engine: each method is one query or one transaction of
 * `queries/`. What differs between engines (locks, isolation, error codes) is behind `SqlSession`.
 */
import type { NewId } from '../kernel/clock.ts';
import type { TableId } from '../kernel/ids.ts';
import type { Catalog } from './port.ts';
import type { CatalogDb } from './queries/catalog-db.ts';
import * as commits from './queries/commits.ts';
import * as creations from './queries/creations.ts';
import * as namespaces from './queries/namespaces.ts';
import * as tableRows from './queries/table-rows.ts';
import * as tables from './queries/tables.ts';

/**
 * What an SQL engine owes the catalog. The queries check, then write; they are right only because transactions are
 * serialisable, so an adapter that cannot run them one by one must ask its database for that and repeat the losers.
 * The constraints of the schema are the safety net below, not the mechanism.
 *
 * The methods pass a `LancegateError` through and turn every other failure into `Internal`, `StorageFull`, or
 * `CatalogUnavailable`.
 */
export interface SqlSession {
  /** Outside a transaction: for work that is a single query, or whose queries need not agree. */
  read<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /** Serialisable; durable when it resolves; undone when `work` throws. */
  transact<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /**
   * As `transact`, for what happens to files that are written already: where the database is lost it is repeated for a while,
   * also where it may have been committed. So `work` does no harm when it is repeated, and returns what it returned at first.
   */
  insist<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /** Waits for what is under way. */
  close(): Promise<void>;
}

type Query<Args extends readonly unknown[], Result> = (db: CatalogDb, ...args: Args) => Promise<Result>;

/** Makes a method of a query. */
const methodsBy =
  (run: SqlSession['read']) =>
  <Args extends readonly unknown[], Result>(query: Query<Args, Result>) =>
  (...args: Args): Promise<Result> =>
    run((db) => query(db, ...args));

export function sqlCatalog(session: SqlSession, newId: NewId): Catalog {
  const reading = methodsBy((work) => session.read(work));
  const writing = methodsBy((work) => session.transact(work));
  const insisting = methodsBy((work) => session.insist(work));
  const newTableId = (): TableId => newId() as TableId;
  return {
    createNamespace: writing(namespaces.createNamespace),
    updateNamespace: writing(namespaces.updateNamespace),
    findNamespace: reading(namespaces.findNamespace),
    listNamespaces: reading(namespaces.listNamespaces),
    dropNamespace: writing(namespaces.dropNamespace),
    namespacesUnder: reading(namespaces.namespacesUnder),

    findTable: reading(tableRows.findTable),
    listTables: reading(tableRows.listTables),
    listAllTables: reading(tableRows.listAllTables),
    declareTable: writing((db, ref, location, properties) =>
      tables.declareTable(db, { id: newTableId(), ref, location, properties }),
    ),
    registerTable: writing((db, adoption) => tables.registerTable(db, newTableId(), adoption)),
    renameTable: writing(tables.renameTable),
    dropTable: writing((db, ref) => tables.removeTable(db, ref, 'discarded')),
    deregisterTable: writing((db, ref) => tables.removeTable(db, ref, 'retired')),
    locationsAt: reading(creations.locationsAt),
    isLocationFresh: reading(creations.isLocationFresh),
    forgetDiscarded: writing(creations.forgetDiscarded),

    reserveCreation: writing((db, ref, existing, location) =>
      creations.reserveCreation(db, { id: newId(), ref, location }, existing),
    ),
    publishCreation: insisting((db, creation, publication) =>
      creations.publishCreation(db, creation, publication, newTableId()),
    ),
    abandonCreation: writing(creations.abandonCreation),
    unfinished: writing(async (db) => ({
      creations: await creations.unfinishedCreations(db),
      discarded: await creations.discardedLocations(db),
    })),

    recordTransactions: insisting(async (db, records, answers = []) => {
      await commits.insertTransactions(db, records);
      await commits.insertAnswers(db, answers);
    }),
    findTransaction: reading(commits.findTransaction),
    forgetTransactions: writing(commits.forgetTransactions),

    recordIntents: writing(commits.insertIntents),
    writeIntents: reading(commits.writeIntents),
    withdrawIntent: writing(commits.withdrawIntent),
    findKeyed: reading(commits.findKeyed),
    forgetKeys: writing(commits.forgetKeys),

    markOpenForWriting: writing(commits.markOpenForWriting),
    acknowledgeVersion: writing(commits.acknowledgeVersion),
    recoveryMarks: reading(commits.listOpenBranches),
    closeBranch: writing(commits.closeBranch),

    close: () => session.close(),
  };
}
