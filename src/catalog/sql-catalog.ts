/**
 * The catalog over an SQL database, the same for every engine: each method is one query or one transaction of
 * `queries/`. What differs between engines (locks, isolation, error codes) is behind `SqlSession`.
 */
import type { NewId } from '../kernel/clock.ts';
import type { TableId } from '../kernel/ids.ts';
import type { Catalog } from './port.ts';
import type { CatalogDb } from './queries/catalog-db.ts';
import * as idempotency from './queries/commits.ts';
import * as recoveryMarks from './queries/commits.ts';
import * as transactions from './queries/commits.ts';
import * as creations from './queries/creations.ts';
import * as locations from './queries/creations.ts';
import * as namespaces from './queries/namespaces.ts';
import * as tableRows from './queries/table-rows.ts';
import * as tables from './queries/tables.ts';
import type { SqlSession } from './sql-session.ts';

type Query<Args extends readonly unknown[], Result> = (db: CatalogDb, ...args: Args) => Promise<Result>;

export function sqlCatalog(session: SqlSession, newId: NewId): Catalog {
  const reading =
    <Args extends readonly unknown[], Result>(query: Query<Args, Result>) =>
    (...args: Args): Promise<Result> =>
      session.read((db) => query(db, ...args));
  const writing =
    <Args extends readonly unknown[], Result>(query: Query<Args, Result>) =>
    (...args: Args): Promise<Result> =>
      session.transact((db) => query(db, ...args));
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
    dropTable: writing((db, ref) => tables.removeTable(db, ref, 'discarded')),
    deregisterTable: writing((db, ref) => tables.removeTable(db, ref, 'retired')),
    placesAt: reading(locations.placesAt),
    isLocationFresh: reading(locations.isLocationFresh),
    forgetDiscarded: writing(locations.forgetDiscarded),

    reserveCreation: writing((db, ref, existing, location) =>
      creations.reserveCreation(db, { id: newId(), ref, location }, existing),
    ),
    publishCreation: writing((db, creation, publication) =>
      creations.publishCreation(db, creation, publication, newTableId()),
    ),
    abandonCreation: writing(creations.abandonCreation),
    unfinished: writing(async (db) => ({
      creations: await creations.unfinishedCreations(db),
      discarded: await locations.discardedLocations(db),
    })),

    recordTransactions: writing(async (db, records, answers = []) => {
      await transactions.insertTransactions(db, records);
      await idempotency.insertAnswers(db, answers);
    }),
    findTransaction: reading(transactions.findTransaction),
    forgetTransactions: writing(transactions.forgetTransactions),

    announceCommits: writing(idempotency.insertCommits),
    announcedCommits: reading(idempotency.announcedCommits),
    withdrawCommit: writing(idempotency.withdrawCommit),
    findKeyed: reading(idempotency.findKeyed),
    forgetKeys: writing(idempotency.forgetKeys),

    markOpenForWriting: writing(recoveryMarks.markOpenForWriting),
    acknowledgeVersion: writing(recoveryMarks.acknowledgeVersion),
    recoveryMarks: reading(recoveryMarks.listOpenBranches),
    closeBranch: writing(recoveryMarks.closeBranch),

    close: () => session.close(),
  };
}
