/**
 * The catalog knows which namespaces and tables exist, where their files are, and what was committed. It has rows, never data.
 * It is the truth about existence: a folder on storage without a row here is not a table.
 *
 * Every method is one short transaction, durable when its promise resolves. No method is held open across engine or
 * object-store work. Refusals are `LancegateError`s of the kind named at the method; a failing database is
 * `Internal`, or `StorageFull` where it has no room.
 */
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
import type { Spelling } from '../kernel/spelling.ts';

export interface NamespaceRecord {
  readonly path: NamespacePath;
  readonly properties: Properties;
}

/** `declared`: it has a name and a location, and no data. `created`: its files are at its location. */
export type TableState = 'declared' | 'created';

export interface TableRecord {
  readonly id: TableId;
  readonly ref: TableRef;
  readonly location: Location;
  readonly state: TableState;
  readonly properties: Properties;
  readonly storageOptions: Properties;
}

/** A create that is under way has reserved the table's name, and writes its files to the location. */
export interface Creation {
  readonly id: string;
  readonly ref: TableRef;
  readonly location: Location;
}

/** These change rows or columns of a table that exists. */
export type WriteOperation =
  | 'merge_insert'
  | 'insert'
  | 'update'
  | 'delete'
  | 'restore'
  | 'create_version'
  | 'add_columns'
  | 'alter_columns'
  | 'drop_columns'
  | 'update_field_metadata'
  | 'update_schema_metadata'
  | 'create_index'
  | 'drop_index'
  | 'transact';

export interface TransactionRecord {
  readonly id: TransactionId;
  readonly tableId: TableId;
  readonly ref: TableRef;
  readonly operation: 'create_table' | WriteOperation;
  readonly branch: BranchName | undefined;
  /** The transaction made or saw this version of the table. */
  readonly version: number;
  /** Facts worth telling later are flat: counts, mode. */
  readonly outcome: Readonly<Record<string, string>>;
  readonly committedAtMs: number;
}

declare const requestOwner: unique symbol;
/** The keys are this principal's: another's same key is another key. */
export type RequestOwner = string & { readonly [requestOwner]: true };

/** The request came with an `Idempotency-Key`; a digest is the SHA-256 in hexadecimal. */
export interface KeyedRequest {
  readonly owner: RequestOwner;
  readonly key: IdempotencyKey;
  /** A digest of the request: operation, table, branch and parameters. */
  readonly requestDigest: string;
  readonly bodyDigest: string;
  /** From then on the key is as good as new. */
  readonly expiresAtMs: number;
  /** It names one attempt at the request: what that records, no other attempt replaces before the key has expired. */
  readonly attempt: string;
  /** The attempt began then. */
  readonly askedAtMs: number;
}

/** It tells the outcome of a keyed request, as the operation that recorded it reads it again. */
export interface KeyedAnswer extends KeyedRequest {
  readonly answer: string;
}

/** Makes the answer to a keyed request of what has been done; the transaction that does it records it, too. */
export type AnswerOf<Done> = (done: Done) => KeyedAnswer;

/** A table has this location on storage, or had it. */
export interface KnownLocation {
  readonly location: Location;
  /** `held`: by a table or a create. `discarded`: its files are being removed. `left`: no table has it. */
  readonly state: 'held' | 'discarded' | 'left';
  /** The table that has the location, or had it last; undefined if the catalog does not know. */
  readonly owner: TableRef | undefined;
}

/** A dataset that exists already becomes a table. */
export interface Adoption {
  readonly ref: TableRef;
  readonly location: Location;
  readonly properties: Properties;
  readonly spelling: Spelling;
  /** `locationsAt` returned them when the caller decided. */
  readonly seen: readonly KnownLocation[];
  /** The table that loses the name in the same step; its files stay. */
  readonly replaces: TableId | undefined;
}

/** It records that a keyed request is about to commit on top of a version. */
export interface WriteIntent extends KeyedRequest {
  readonly tableId: TableId;
  readonly ref: TableRef;
  readonly branch: BranchName | undefined;
  readonly baseVersion: number;
}

/**
 * Names in ascending order of their UTF-8 bytes (of code points); `after` is the last name of the page before, or the cursor of
 * its last table.
 */
export interface PageRequest {
  readonly after: string | undefined;
  readonly limit: number;
}
export interface TablePageRequest extends PageRequest {
  readonly includeDeclared: boolean;
  /** Lists those of all namespaces below, too, and all ordered by their full path. */
  readonly includeBelow?: boolean;
}

/** What becomes of the files of a table that is dropped: they go, stay where they are, or can be brought back for a time if it has rows. */
export type DroppedFiles = 'discarded' | 'left' | KeptDropped;

export interface KeptDropped {
  readonly droppedAtMs: number;
  /** The table is purged after that. */
  readonly keptUntilMs: number;
}

/** It is in the trash, under the name that it had. `cursor`: `after` of the page that begins behind this table. */
export type DroppedTable = TableRecord & KeptDropped & { readonly cursor: string };

/** The newest first. */
export interface DroppedPageRequest extends PageRequest {
  /** Those of a name, or the one of an id; or of all names below a namespace, which may be gone itself. All where this is undefined. */
  readonly of?: { readonly named: TableRef; readonly id?: TableId | undefined } | { readonly below: NamespacePath };
  /** Only those that were to be kept until then, or for less. */
  readonly endedByMs?: number;
}

export interface ListedTable extends TableRecord {
  /** `after` of the page that begins behind this table. */
  readonly cursor: string;
}

/** A crash may have left creates to undo and drops to finish. */
export interface Unfinished {
  readonly creations: readonly Creation[];
  /** Nothing refers to these files any more: they are of dropped tables, and of tables that an overwrite replaced. */
  readonly discarded: readonly Location[];
}

export interface OpenBranch {
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  /** The version that was acknowledged last; 0 for a branch that is being made. */
  readonly acknowledgedVersion: number;
  /** The engine had this one at the time: see `Engine.storageSession`. */
  readonly storageSession: string;
}

export interface OpenBranchRecord extends OpenBranch {
  readonly ref: TableRef;
  readonly location: Location;
}

export type AcknowledgedBranch = Omit<OpenBranchRecord, 'storageSession'>;

/** It says what becomes of a namespace that is there: `exist_ok` leaves it alone, `overwrite` replaces its properties and keeps what is inside. */
export type NamespaceMode = 'create' | 'exist_ok' | 'overwrite';

/** `isFound`: it was there, and was left alone. */
export type MadeNamespace = NamespaceRecord & { readonly isFound?: true };

export interface NamespaceCatalog {
  /**
   * Of a namespace that is found and left alone no answer is recorded. `NamespaceNotFound` (the parent); `NamespaceAlreadyExists`, by mode
   * `create`. The root always exists.
   */
  createNamespace(
    path: NamespacePath,
    properties: Properties,
    answered?: AnswerOf<NamespaceRecord>,
    mode?: NamespaceMode,
  ): Promise<MadeNamespace>;
  findNamespace(path: NamespacePath): Promise<NamespaceRecord | undefined>;
  /** Lists the names of the direct children. `NamespaceNotFound`. */
  listNamespaces(parent: NamespacePath, page: PageRequest): Promise<readonly ObjectName[]>;
  /**
   * Removes an empty namespace. `NamespaceNotFound`, `NamespaceNotEmpty` (tables, reservations or children),
   * `InvalidInput` for the root.
   */
  dropNamespace(path: NamespacePath, answered?: AnswerOf<void>): Promise<void>;
  /**
   * Everything below `path`, deepest first, `path` itself last: what a cascading drop has to go through. Empty if there
   * is no such namespace.
   */
  namespacesUnder(path: NamespacePath): Promise<readonly NamespacePath[]>;
}

/** A request may name these as its database: the namespaces of the root, and those that were there and were dropped. */
export interface DatabaseCatalog {
  /** Never false again once it was true. */
  isDatabase(name: ObjectName): Promise<boolean>;
  /** Notes those that were made before there were databases, and returns their names. */
  noteDatabases(): Promise<readonly ObjectName[]>;
}

export interface TableCatalog {
  findTable(ref: TableRef): Promise<TableRecord | undefined>;
  /** Lists the tables of a namespace. `NamespaceNotFound`. */
  listTables(namespace: NamespacePath, page: TablePageRequest): Promise<readonly ListedTable[]>;

  /**
   * Makes a declared-only table. `NamespaceNotFound`, `TableAlreadyExists`; `ConcurrentCreate` while one is reserved,
   * or if the location is not fresh any more.
   */
  declareTable(
    ref: TableRef,
    location: Location,
    properties: Properties,
    answered?: AnswerOf<TableRecord>,
  ): Promise<TableRecord>;
  /**
   * Adopts existing files as a `created` table. As `declareTable`, but `InvalidInput` if a table holds the location, or one
   * inside or around it, and `ConcurrentCreate` if `seen` or `replaces` no longer holds.
   */
  registerTable(adoption: Adoption, answered?: AnswerOf<TableRecord>): Promise<TableRecord>;
  /** Returns the known locations that are this one, lie inside it or around it, in the order of their locations. */
  locationsAt(location: Location, spelling: Spelling): Promise<readonly KnownLocation[]>;
  /**
   * Makes the table invisible, in one step: it goes to the trash, or its location is discarded; or its files are left alone, and the
   * location stays used. `TableNotFound`. A create under way that writes to the same location keeps it.
   */
  dropTable(ref: TableRef, answered?: AnswerOf<TableRecord>, files?: DroppedFiles): Promise<TableRecord>;
  /**
   * Gives the table another name, in one step: its id, location, files and open branches stay. `TableNotFound`, `NamespaceNotFound`,
   * `TableAlreadyExists`; `ConcurrentCreate` while a create of either name is under way, which may be about to replace the table.
   */
  renameTable(from: TableRef, to: TableRef, answered?: AnswerOf<TableRecord>): Promise<TableRecord>;
}

/** The tables that were dropped, and can be brought back. */
export interface TrashCatalog {
  droppedTables(page: DroppedPageRequest): Promise<readonly DroppedTable[]>;
  /**
   * Makes the table `id` that was dropped as `from` visible as `to`, with all that it had. `TableNotFound` where the trash has none;
   * else as `declareTable`.
   */
  undropTable(from: TableRef, id: TableId, to: TableRef, answered?: AnswerOf<TableRecord>): Promise<TableRecord>;
  /** Forgets it, and discards the location at which its files are by now. `TableNotFound`. */
  purgeDropped(from: TableRef, id: TableId, keptAt: Location): Promise<void>;
}

/** It knows which creates are under way, and the locations of their files. */
export interface CreationCatalog {
  /**
   * Reserves the name until `publishCreation` or `abandonCreation`. `existing` says what the caller saw there
   * (a table's id to be materialised or replaced, or undefined), and must still be so: otherwise `ConcurrentCreate`.
   * Also `ConcurrentCreate` while another reservation stands, and `NamespaceNotFound`. The location must be fresh, or
   * that of the existing table if it is only declared; `ConcurrentCreate` if another create took it first.
   */
  reserveCreation(ref: TableRef, existing: TableId | undefined, location: Location): Promise<Creation>;
  /**
   * Makes the reserved table visible as `created`, in one transaction with its transaction record; a replaced table's
   * location is marked discarded, or the table goes to the trash, and its transactions stay known. A replaced or materialised table gets a new id.
   * `ConcurrentCreate` if the reservation was abandoned or published before; `NamespaceNotFound` if the namespace was
   * dropped after that. A table that was dropped while its replacement was written does not hinder it. The same publication, by
   * the id of its transaction, may be repeated after `Internal`.
   */
  publishCreation(creation: Creation, publication: Publication): Promise<TableRecord>;
  /**
   * Gives the name back and marks the location discarded. Harmless when repeated, or after the publication.
   * If the location is that of a declared table, it stays with the table: remove what was written before calling.
   */
  abandonCreation(creation: Creation): Promise<void>;
  /**
   * Whether the reservation stands. A publication whose answer was lost, but that the database may still commit, has failed or
   * taken place when this resolves.
   */
  isReserved(creation: Creation): Promise<boolean>;

  /** The files of a discarded location are gone from storage. */
  forgetDiscarded(location: Location): Promise<void>;
  /** All, or what was of this name. */
  unfinished(ref?: TableRef): Promise<Unfinished>;
}

export interface OldRecords {
  /** Transactions committed before that time are old. */
  readonly committedBeforeMs: number;
  /** Keys that had expired at that time are. */
  readonly expiredAtMs: number;
}

export interface TransactionCatalog {
  /**
   * Until it is disposed of, a full disk does not refuse the write intents and records of a commit of so many writes, or the
   * publication of a table. To be called before either. Throws `StorageFull`.
   */
  reserveRoom(records: number, answers: number): Disposable;
  /**
   * All or none, the answers to keyed requests included. Moves the acknowledged versions of the branches they are of
   * forward, where those are open for writing. May be repeated after `Internal`, which leaves open whether they are recorded;
   * another transaction of the same id is `Internal`, too.
   */
  recordTransactions(records: readonly TransactionRecord[], answers?: readonly KeyedAnswer[]): Promise<void>;
  findTransaction(id: TransactionId): Promise<TransactionRecord | undefined>;
  /** Forgets old transactions and expired keys, the oldest first, up to `limit` of each; how many went. */
  forgetRecords(old: OldRecords, limit: number): Promise<{ readonly transactions: number; readonly keys: number }>;
}

/** It knows the requests with an `Idempotency-Key`. */
export interface KeyedRequestCatalog {
  /**
   * Replaces what the same attempts intended before, and what has expired. All or none: `ConcurrentModification` where another
   * attempt has recorded something.
   */
  recordIntents(intents: readonly WriteIntent[]): Promise<void>;
  /** Returns the write intents of requests that were never answered: all, or those of the table of this name. */
  writeIntents(ref?: TableRef): Promise<readonly WriteIntent[]>;
  /** The commit of the attempt was not made after all. An answer stays. Of an attempt of another process, with its `ref`. */
  withdrawIntent(request: Pick<KeyedRequest, 'owner' | 'key' | 'attempt'> & { readonly ref?: TableRef }): Promise<void>;
  findKeyed(owner: RequestOwner, key: IdempotencyKey): Promise<KeyedAnswer | WriteIntent | undefined>;
}

/** It knows which branches may hold commits that were not acknowledged. */
export interface OpenBranchCatalog {
  /**
   * Says before the first commit to a branch that commits may follow which are never acknowledged, if this process ends
   * first. A repeated call replaces what the one before said.
   */
  markOpenForWriting(open: OpenBranch): Promise<void>;
  /**
   * Moves the acknowledged version of an open branch forward, never back, after a commit of which no transaction is recorded.
   */
  acknowledgeVersion(tableId: TableId, branch: BranchName | undefined, version: number): Promise<void>;
  /**
   * The marks of branches that are neither closed nor gone with their table: after a crash, the branches to recover. Ordered by
   * table, branch. All, or those of the table of this name.
   */
  recoveryMarks(ref?: TableRef): Promise<readonly OpenBranchRecord[]>;
  /**
   * Every commit to the branch is acknowledged, or gone; or the branch itself `isGone`, and what was acknowledged of it is forgotten: one
   * of the same name has versions of its own. Harmless when repeated.
   */
  closeBranch(tableId: TableId, branch: BranchName | undefined, isGone?: boolean): Promise<void>;
  /** Returns the newest acknowledged version of each branch, open or closed, of which one is known: of all, or of one branch. */
  acknowledgedBranches(of?: Pick<OpenBranch, 'tableId' | 'branch'>): Promise<readonly AcknowledgedBranch[]>;
}

/** What uses it takes those of these interfaces that it needs. */
export interface Catalog
  extends NamespaceCatalog,
    DatabaseCatalog,
    TableCatalog,
    TrashCatalog,
    CreationCatalog,
    TransactionCatalog,
    KeyedRequestCatalog,
    OpenBranchCatalog {
  /** Waits for what is under way. The catalog is of no use afterwards. */
  close(): Promise<void>;
}

export interface Publication {
  readonly properties: Properties;
  readonly storageOptions: Properties;
  readonly transaction: Omit<TransactionRecord, 'tableId' | 'ref'>;
  /** The same transaction records the answer to a keyed request. */
  readonly answer?: KeyedAnswer | undefined;
  /** What becomes of the files of a table that it replaces; they go where this is undefined. */
  readonly replaced?: KeptDropped | undefined;
}
