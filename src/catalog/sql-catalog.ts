/**
 * The catalog over an SQL database is the same for every engine: each method is one query or one transaction of
 * `queries/`. What differs between engines (locks, isolation, error codes) is behind `SqlSession`.
 */
import type { NewId } from '../kernel/clock.ts';
import type { Location, NamespacePath, Properties, TableId, TableRef } from '../kernel/ids.ts';
import type {
  Adoption,
  AnswerOf,
  Catalog,
  Creation,
  CreationCatalog,
  DatabaseCatalog,
  DroppedFiles,
  KeyedAnswer,
  KeyedRequestCatalog,
  NamespaceCatalog,
  NamespaceMode,
  NamespaceRecord,
  OldRecords,
  OpenBranchCatalog,
  Publication,
  TableCatalog,
  TableRecord,
  TransactionCatalog,
  TransactionRecord,
  TrashCatalog,
} from './port.ts';
import type { CatalogDb } from './queries/catalog-db.ts';
import * as commits from './queries/commits.ts';
import * as creations from './queries/creations.ts';
import * as databases from './queries/databases.ts';
import * as dropped from './queries/dropped-tables.ts';
import * as namespaces from './queries/namespaces.ts';
import * as owners from './queries/owners.ts';
import * as sharedRoot from './queries/shared-root.ts';
import * as tableRows from './queries/table-rows.ts';
import * as tables from './queries/tables.ts';
import type { OwnedNames, SharedCatalog } from './replica-port.ts';

/**
 * An SQL engine owes this to the catalog. The queries check, then write; they are right only because transactions are
 * serialisable, so an adapter that cannot run them one by one must ask its database for that and repeat the losers.
 * The constraints of the schema are the safety net below, not the mechanism.
 *
 * The methods pass a `LancegateError` through and turn every other failure into `Internal`, `StorageFull`, or
 * `CatalogUnavailable`.
 */
export interface SqlSession {
  /** Runs outside a transaction: for work that is a single query, or whose queries need not agree. */
  read<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /** Runs a transaction: serialisable, durable when it resolves, and undone when `work` throws. */
  transact<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /** As `transact`, also where a full disk has no more room than was kept: for who reserved it, and for what frees names or files. */
  transactInRoom<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /**
   * As `transactInRoom`, for what happens to files that are written already: where the database is lost it is repeated for a while,
   * also where it may have been committed. So `work` does no harm when it is repeated, and returns what it returned at first.
   */
  insist<Result>(work: (db: CatalogDb) => Promise<Result>): Promise<Result>;
  /** See `TransactionCatalog.reserveRoom`. */
  reserveRoom(records: number, answers: number): Disposable;
  /** Waits for what is under way. */
  close(): Promise<void>;
}

const first = (ref: TableRef): readonly TableRef[] => [ref];
const named = ({ ref }: { readonly ref: TableRef }): readonly TableRef[] => [ref];
const perhapsNamed = ({ ref }: { readonly ref?: TableRef }): readonly TableRef[] => (ref === undefined ? [] : [ref]);
const allNamed = (records: readonly { readonly ref: TableRef }[]): readonly TableRef[] => records.map(({ ref }) => ref);

type Query<Args extends readonly unknown[], Result> = (db: CatalogDb, ...args: Args) => Promise<Result>;

/** Makes a method of a query. */
const methodsBy =
  (run: SqlSession['read']) =>
  <Args extends readonly unknown[], Result>(query: Query<Args, Result>) =>
  (...args: Args): Promise<Result> =>
    run((db) => query(db, ...args));

/** Throws where this process must not change what has these names. */
type RequireOwned = (db: CatalogDb, refs: readonly TableRef[]) => Promise<void>;

/** Makes methods of queries. Without `requireOwned` every name is this process's own. */
function methodsOf(session: SqlSession, requireOwned: RequireOwned | undefined) {
  /** `query` where the names that it changes are owned. `refsOf` gives them. */
  const owning = <Given, Rest extends readonly unknown[], Result>(
    refsOf: (given: NoInfer<Given>) => readonly TableRef[],
    query: Query<readonly [Given, ...Rest], Result>,
  ): Query<readonly [Given, ...Rest], Result> =>
    requireOwned === undefined
      ? query
      : async (db, given, ...rest) => {
          await requireOwned(db, refsOf(given));
          return query(db, given, ...rest);
        };
  /** As `owning`, of the table of an id, if there is one. */
  const owningOf = <Given, Rest extends readonly unknown[]>(
    idOf: (given: NoInfer<Given>) => TableId,
    query: Query<readonly [Given, ...Rest], void>,
  ): Query<readonly [Given, ...Rest], void> =>
    requireOwned === undefined
      ? query
      : async (db, given, ...rest) => {
          const ref = await owners.refOfTable(db, idOf(given));
          if (ref !== undefined) await requireOwned(db, [ref]);
          return query(db, given, ...rest);
        };
  return {
    reading: methodsBy((work) => session.read(work)),
    writing: methodsBy((work) => session.transact(work)),
    writingInRoom: methodsBy((work) => session.transactInRoom(work)),
    insisting: methodsBy((work) => session.insist(work)),
    reserveRoom: (records: number, answers: number) => session.reserveRoom(records, answers),
    owning,
    owningOf,
  };
}

type Methods = ReturnType<typeof methodsOf>;

export function sqlCatalog(session: SqlSession, newId: NewId, requireOwned?: RequireOwned): Catalog {
  const methods = methodsOf(session, requireOwned);
  return {
    ...namespaceMethods(methods),
    ...tableMethods(methods, newId),
    ...commitMethods(methods),
    close: () => session.close(),
  };
}

/** Records the answer to a keyed request with it, where there is one. */
async function andAnswer<Done>(
  db: CatalogDb,
  work: Done | Promise<Done>,
  answered: AnswerOf<Done> | undefined,
): Promise<Done> {
  const done = await work;
  if (answered !== undefined) await commits.insertAnswers(db, [answered(done)]);
  return done;
}

type AnsweredTable = AnswerOf<TableRecord>;
type AnsweredNamespace = AnswerOf<NamespaceRecord>;

/** These know which namespaces exist. */
const namespaceMethods = ({ reading, writing, writingInRoom }: Methods): NamespaceCatalog & DatabaseCatalog => ({
  createNamespace: writing(
    async (db, path: NamespacePath, properties: Properties, answered?: AnsweredNamespace, mode?: NamespaceMode) => {
      const made = await namespaces.createNamespace(db, path, properties, mode);
      if (made.isFound) return made;
      await databases.noteDatabase(db, path);
      return andAnswer(db, made, answered);
    },
  ),
  findNamespace: reading(namespaces.findNamespace),
  listNamespaces: reading(namespaces.listNamespaces),
  dropNamespace: writingInRoom(async (db, path: NamespacePath, answered?: AnswerOf<void>) => {
    await namespaces.dropNamespace(db, path);
    await databases.noteDatabase(db, path); // an older version that made it has not
    return andAnswer(db, undefined, answered);
  }),
  namespacesUnder: reading(namespaces.namespacesUnder),
  isDatabase: reading(databases.isDatabase),
  noteDatabases: writing(databases.noteDatabases),
});

/** These know which tables exist. */
function tableMethods(
  { reading, writing, writingInRoom, insisting, owning }: Methods,
  newId: NewId,
): TableCatalog & TrashCatalog & CreationCatalog {
  const newTableId = (): TableId => newId() as TableId;
  return {
    findTable: reading(tableRows.findTable),
    listTables: reading(tableRows.listTables),
    declareTable: writing(
      owning(first, (db, ref: TableRef, location: Location, properties: Properties, answered?: AnsweredTable) =>
        andAnswer(db, tables.declareTable(db, { id: newTableId(), ref, location, properties }), answered),
      ),
    ),
    registerTable: writing(
      owning(named, (db, adoption: Adoption, answered?: AnsweredTable) =>
        andAnswer(db, tables.registerTable(db, newTableId(), adoption), answered),
      ),
    ),
    renameTable: writing(
      owning(first, (db, from: TableRef, to: TableRef, answered?: AnsweredTable) =>
        andAnswer(db, tables.renameTable(db, from, to), answered),
      ),
    ),
    dropTable: writingInRoom(
      owning(first, (db, ref: TableRef, answered?: AnsweredTable, files: DroppedFiles = 'discarded') =>
        andAnswer(db, tables.removeTable(db, ref, files), answered),
      ),
    ),
    droppedTables: reading(dropped.listDropped),
    undropTable: writing(
      owning(first, (db, from: TableRef, id: TableId, to: TableRef, answered?: AnsweredTable) =>
        andAnswer(db, dropped.undropTable(db, from, id, to), answered),
      ),
    ),
    purgeDropped: writingInRoom(owning(first, dropped.purgeDropped)),
    locationsAt: reading(creations.locationsAt),
    forgetDiscarded: writingInRoom(creations.forgetDiscarded),

    reserveCreation: writing(
      owning(first, (db, ref: TableRef, existing: TableId | undefined, location: Location) =>
        creations.reserveCreation(db, { id: newId(), ref, location }, existing),
      ),
    ),
    publishCreation: insisting(
      owning(named, (db, creation: Creation, publication: Publication) =>
        creations.publishCreation(db, creation, publication, newTableId()),
      ),
    ),
    abandonCreation: writingInRoom(creations.abandonCreation),
    isReserved: writingInRoom(creations.isReserved),
    unfinished: writingInRoom(async (db, ref) => ({
      creations: await creations.unfinishedCreations(db, ref),
      discarded: await creations.discardedLocations(db, ref),
    })),
  };
}

/** These know what was committed. */
const commitMethods = ({
  reading,
  writing,
  writingInRoom,
  insisting,
  reserveRoom,
  owning,
  owningOf,
}: Methods): TransactionCatalog & KeyedRequestCatalog & OpenBranchCatalog => ({
  reserveRoom,
  recordTransactions: insisting(
    owning(allNamed, async (db, records: readonly TransactionRecord[], answers: readonly KeyedAnswer[] = []) => {
      await commits.insertTransactions(db, records);
      await commits.insertAnswers(db, answers);
    }),
  ),
  findTransaction: reading(commits.findTransaction),
  forgetRecords: writingInRoom(async (db, { committedBeforeMs, expiredAtMs }: OldRecords, limit: number) => ({
    transactions: await commits.forgetTransactions(db, committedBeforeMs, limit),
    keys: await commits.forgetKeys(db, expiredAtMs, limit),
  })),

  recordIntents: writingInRoom(owning(allNamed, commits.insertIntents)),
  writeIntents: reading(commits.writeIntents),
  withdrawIntent: writingInRoom(owning(perhapsNamed, commits.withdrawIntent)),
  findKeyed: reading(commits.findKeyed),

  markOpenForWriting: writing(owningOf(({ tableId }) => tableId, commits.markOpenForWriting)),
  acknowledgeVersion: writing(owningOf((tableId) => tableId, commits.acknowledgeVersion)),
  recoveryMarks: reading(commits.listOpenBranches),
  closeBranch: writingInRoom(owningOf((tableId) => tableId, commits.closeBranch)),
  acknowledgedBranches: reading(commits.acknowledgedBranches),
});

/** One of several replicas has this catalog, and owns `names`. */
export function sharedCatalog(
  session: SqlSession,
  newId: NewId,
  names: OwnedNames,
  engine: owners.OwnerSql,
): SharedCatalog {
  const catalog = sqlCatalog(session, newId, (db, refs) => owners.requireOwned(db, engine, names, refs));
  // Single statements that may be repeated, and that take no part in the conflicts of transactions.
  const reading = methodsBy((work) => session.read(work));
  return {
    ...catalog,
    renewLease: (lease) => session.read((db) => owners.renewLease(db, engine, lease)),
    endLease: reading(owners.endLease),
    liveReplicas: () => session.read((db) => owners.liveReplicas(db, engine)),
    forgetEndedReplicas: () => session.read((db) => owners.forgetEndedReplicas(db, engine)),
    findOwner: (ref) => session.read((db) => owners.findOwner(db, engine, ref)),
    isTaken: reading(owners.isTaken),
    claimName: (ref, replica) => session.transact((db) => owners.claimName(db, engine, ref, replica)),
    isOwner: (name, replica) => session.read((db) => owners.isOwner(db, engine, name, replica)),
    releaseName: reading(owners.releaseName),
    countNames: reading(owners.countNames),
    wantNames: reading(owners.wantNames),
    namesOf: reading(owners.namesOf),
    forgetUnusedNames: reading(owners.forgetUnusedNames),
    unsettledNames: (limit) => session.read((db) => owners.unsettledNames(db, engine, limit)),
    agreeOnRoot: reading(sharedRoot.agreeOnRoot),
    moveRoot: (move) => session.transact((db) => sharedRoot.moveRoot(db, engine, move)),
  };
}
