/**
 * The catalog over an SQL database, the same for every engine: each method is one query or one transaction of
 * `queries/`. What differs between engines (locks, isolation, error codes) is behind `SqlSession`.
 */

import type { NewId } from '../kernel/clock.ts';
import type {
  BranchName,
  IdempotencyKey,
  Location,
  NamespacePath,
  ObjectName,
  Properties,
  TableId,
  TableRef,
  TransactionId,
} from '../kernel/ids.ts';
import type { Spelling } from '../kernel/places.ts';
import type {
  Adoption,
  Catalog,
  Creation,
  KeyedAnswer,
  KeyedCommit,
  KeyedRequest,
  KnownPlace,
  NamespaceRecord,
  OpenBranch,
  OpenBranchRecord,
  PageRequest,
  Publication,
  RequestOwner,
  TablePageRequest,
  TableRecord,
  TransactionRecord,
  Unfinished,
} from './port.ts';
import * as creations from './queries/creations.ts';
import * as idempotency from './queries/idempotency.ts';
import * as locations from './queries/locations.ts';
import * as namespaces from './queries/namespaces.ts';
import * as recoveryMarks from './queries/open-branches.ts';
import * as tableRows from './queries/table-rows.ts';
import * as tables from './queries/tables.ts';
import * as transactions from './queries/transactions.ts';
import type { SqlSession } from './sql-session.ts';

export class SqlCatalog implements Catalog {
  readonly #session: SqlSession;
  readonly #newId: NewId;

  constructor(session: SqlSession, newId: NewId) {
    this.#session = session;
    this.#newId = newId;
  }

  createNamespace(path: NamespacePath, properties: Properties): Promise<NamespaceRecord> {
    return this.#session.transact((db) => namespaces.createNamespace(db, path, properties));
  }

  updateNamespace(path: NamespacePath, properties: Properties): Promise<NamespaceRecord> {
    return this.#session.transact((db) => namespaces.updateNamespace(db, path, properties));
  }

  findNamespace(path: NamespacePath): Promise<NamespaceRecord | undefined> {
    return this.#session.read((db) => namespaces.findNamespace(db, path));
  }

  listNamespaces(parent: NamespacePath, page: PageRequest): Promise<readonly ObjectName[]> {
    return this.#session.read((db) => namespaces.listNamespaces(db, parent, page));
  }

  dropNamespace(path: NamespacePath): Promise<void> {
    return this.#session.transact((db) => namespaces.dropNamespace(db, path));
  }

  namespacesUnder(path: NamespacePath): Promise<readonly NamespacePath[]> {
    return this.#session.read((db) => namespaces.namespacesUnder(db, path));
  }

  findTable(ref: TableRef): Promise<TableRecord | undefined> {
    return this.#session.read((db) => tableRows.findTable(db, ref));
  }

  listTables(namespace: NamespacePath, page: TablePageRequest): Promise<readonly TableRecord[]> {
    return this.#session.read((db) => tableRows.listTables(db, namespace, page));
  }

  listAllTables(page: TablePageRequest): Promise<readonly TableRecord[]> {
    return this.#session.read((db) => tableRows.listAllTables(db, page));
  }

  declareTable(ref: TableRef, location: Location, properties: Properties): Promise<TableRecord> {
    const id = this.#newTableId();
    return this.#session.transact((db) => tables.declareTable(db, { id, ref, location, properties }));
  }

  registerTable(adoption: Adoption): Promise<TableRecord> {
    const id = this.#newTableId();
    return this.#session.transact((db) => tables.registerTable(db, id, adoption));
  }

  placesAt(location: Location, spelling: Spelling): Promise<readonly KnownPlace[]> {
    return this.#session.read((db) => locations.placesAt(db, location, spelling));
  }

  reserveCreation(ref: TableRef, existing: TableId | undefined, location: Location): Promise<Creation> {
    const creation = { id: this.#newId(), ref, location };
    return this.#session.transact((db) => creations.reserveCreation(db, creation, existing));
  }

  publishCreation(creation: Creation, publication: Publication): Promise<TableRecord> {
    const id = this.#newTableId();
    return this.#session.transact((db) => creations.publishCreation(db, creation, publication, id));
  }

  abandonCreation(creation: Creation): Promise<void> {
    return this.#session.transact((db) => creations.abandonCreation(db, creation));
  }

  dropTable(ref: TableRef): Promise<TableRecord> {
    return this.#session.transact((db) => tables.removeTable(db, ref, 'discarded'));
  }

  deregisterTable(ref: TableRef): Promise<TableRecord> {
    return this.#session.transact((db) => tables.removeTable(db, ref, 'retired'));
  }

  isLocationFresh(location: Location): Promise<boolean> {
    return this.#session.read((db) => locations.isLocationFresh(db, location));
  }

  forgetDiscarded(location: Location): Promise<void> {
    return this.#session.transact((db) => locations.forgetDiscarded(db, location));
  }

  unfinished(): Promise<Unfinished> {
    return this.#session.transact(async (db) => ({
      creations: await creations.unfinishedCreations(db),
      discarded: await locations.discardedLocations(db),
    }));
  }

  recordTransactions(records: readonly TransactionRecord[], answers: readonly KeyedAnswer[] = []): Promise<void> {
    return this.#session.transact(async (db) => {
      await transactions.insertTransactions(db, records);
      await idempotency.insertAnswers(db, answers);
    });
  }

  findTransaction(id: TransactionId): Promise<TransactionRecord | undefined> {
    return this.#session.read((db) => transactions.findTransaction(db, id));
  }

  forgetTransactions(beforeMs: number, limit: number): Promise<number> {
    return this.#session.transact((db) => transactions.forgetTransactions(db, beforeMs, limit));
  }

  announceCommits(commits: readonly KeyedCommit[]): Promise<void> {
    return this.#session.transact((db) => idempotency.insertCommits(db, commits));
  }

  announcedCommits(): Promise<readonly KeyedCommit[]> {
    return this.#session.read((db) => idempotency.announcedCommits(db));
  }

  withdrawCommit(request: Pick<KeyedRequest, 'owner' | 'key'>): Promise<void> {
    return this.#session.transact((db) => idempotency.withdrawCommit(db, request));
  }

  findKeyed(owner: RequestOwner, key: IdempotencyKey): Promise<KeyedAnswer | KeyedCommit | undefined> {
    return this.#session.read((db) => idempotency.findKeyed(db, owner, key));
  }

  forgetKeys(atMs: number, limit: number): Promise<number> {
    return this.#session.transact((db) => idempotency.forgetKeys(db, atMs, limit));
  }

  markOpenForWriting(open: OpenBranch): Promise<void> {
    return this.#session.transact((db) => recoveryMarks.markOpenForWriting(db, open));
  }

  acknowledgeVersion(tableId: TableId, branch: BranchName | undefined, version: number): Promise<void> {
    return this.#session.transact((db) => recoveryMarks.acknowledgeVersion(db, tableId, branch, version));
  }

  recoveryMarks(): Promise<readonly OpenBranchRecord[]> {
    return this.#session.read((db) => recoveryMarks.listOpenBranches(db));
  }

  closeBranch(tableId: TableId, branch: BranchName | undefined): Promise<void> {
    return this.#session.transact((db) => recoveryMarks.closeBranch(db, tableId, branch));
  }

  close(): Promise<void> {
    return this.#session.close();
  }

  #newTableId(): TableId {
    return this.#newId() as TableId;
  }
}
