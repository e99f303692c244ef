/** The database holds these rows. Objects of text to text are kept as JSON text: nothing ever queries inside. */

import type { Kysely } from 'kysely';
import { LancegateError } from '../../kernel/errors.ts';
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
} from '../../kernel/ids.ts';
import type { ApiKeyColumns } from '../credentials.ts';
import type { RequestOwner, TableState, TransactionRecord } from '../port.ts';

interface NamespaceRow {
  readonly path: FullPath;
  /** It is null for the root only. */
  readonly parent: FullPath | null;
  readonly name: string;
  readonly properties: string;
}

export interface TableRow {
  readonly id: TableId;
  readonly path: FullPath;
  readonly namespace: FullPath;
  readonly name: ObjectName;
  readonly location: Location;
  readonly state: TableState;
  readonly properties: string;
  readonly storage_options: string;
}

/** It was dropped, and can be brought back. */
interface DroppedTableRow extends TableRow {
  readonly dropped_at_ms: number;
  readonly kept_until_ms: number;
}

/** Reservations have rows of their own: an overwrite's old table stays visible while the new one is written. */
export interface CreationRow {
  readonly id: string;
  readonly path: FullPath;
  readonly namespace: FullPath;
  readonly location: Location;
}

/**
 * Every location ever given out, so that none is given out twice.
 * `live`: a table, one in the trash or a creation holds it. `discarded`: its files wait to be removed. `retired`: neither; either the
 * files are gone or they were deregistered and belong to another program.
 */
interface LocationRow {
  readonly location: Location;
  readonly state: 'live' | 'discarded' | 'retired';
  /** The table that has the location, or had it last; null for rows of before migration 4. */
  readonly owner: FullPath | null;
}

/** Stands on its own: a transaction stays known after its table is gone. */
export interface TransactionRow {
  readonly id: TransactionId;
  readonly table_id: TableId;
  readonly table_path: FullPath;
  readonly operation: TransactionRecord['operation'];
  readonly branch: BranchName | null;
  readonly version: number;
  readonly outcome: string;
  readonly committed_at_ms: number;
}

interface OpenBranchRow {
  readonly table_id: TableId;
  /** It is empty for main. */
  readonly branch: BranchName | '';
  readonly acknowledged_version: number;
  readonly storage_session: string;
}

interface AcknowledgedVersionRow {
  readonly table_id: TableId;
  /** It is empty for main. */
  readonly branch: BranchName | '';
  readonly version: number;
}

/** `answer` is null in a write intent, which the columns after it say. */
export interface IdempotencyKeyRow {
  readonly owner: RequestOwner;
  readonly key: IdempotencyKey;
  readonly request_digest: string;
  readonly body_digest: string;
  readonly expires_at_ms: number;
  readonly answer: string | null;
  readonly table_id: TableId | null;
  readonly table_path: FullPath | null;
  readonly branch: BranchName | null;
  readonly base_version: number | null;
  /** These two are null in rows of before migration 6. */
  readonly attempt: string | null;
  readonly asked_at_ms: number | null;
}

/** The replica runs, or ran lately. */
interface ReplicaRow {
  readonly id: string;
  readonly address: string;
  /** The clock of the database decides. */
  readonly expires_at_ms: number;
  /** 1 once it hands over what it owns. */
  readonly is_leaving: number;
}

/** Says which replica writes to what has this name. */
interface TableOwnerRow {
  readonly path: FullPath;
  /** null where no replica does. */
  readonly replica: string | null;
  /** Each claim raises it. */
  readonly epoch: number;
  /** 1 if the last owner has handed it over in order. */
  readonly is_settled: number;
  /** The replica that has asked for the name. */
  readonly wanted_by: string | null;
}

interface StorageRootRow {
  readonly only_row: number;
  readonly root: string;
}

interface DatabaseRow {
  readonly name: string;
}

export interface ApiKeyRow extends ApiKeyColumns {
  readonly secret_sha256: string;
}

interface IssuerKeysRow {
  readonly issuer: string;
  readonly document: string;
}

export interface CatalogSchema {
  readonly namespaces: NamespaceRow;
  readonly tables: TableRow;
  readonly creations: CreationRow;
  readonly locations: LocationRow;
  readonly transactions: TransactionRow;
  readonly idempotency_keys: IdempotencyKeyRow;
  readonly open_branches: OpenBranchRow;
  readonly acknowledged_versions: AcknowledgedVersionRow;
  readonly api_keys: ApiKeyRow;
  readonly issuer_keys: IssuerKeysRow;
  readonly replicas: ReplicaRow;
  readonly table_owners: TableOwnerRow;
  readonly storage_root: StorageRootRow;
  readonly databases: DatabaseRow;
  readonly dropped_tables: DroppedTableRow;
}

export type CatalogDb = Kysely<CatalogSchema>;

export const propertiesToJson = (properties: Properties): string => JSON.stringify(properties);
export const propertiesFromJson = (json: string): Properties => JSON.parse(json) as Properties;

/** Parts of rows that fit into one statement: SQLite allows 32766 parameters, and no row has more than 12. */
export const insertable = <Row>(rows: readonly Row[]): readonly (readonly Row[])[] =>
  Array.from({ length: Math.ceil(rows.length / 1000) }, (_, part) => rows.slice(part * 1000, (part + 1) * 1000));

declare const brand: unique symbol;
/**
 * An identifier is one text, empty for the root namespace. Such texts are unambiguous, and sort as the lists of names do: parents
 * come before their children.
 */
export type FullPath = string & { readonly [brand]: 'FullPath' };

/** Names hold no control characters, and this one sorts below every character that they can hold. */
const pathSeparator = '\u001f';
/** It comes right after the separator: with it a range scan covers exactly what is below a path. */
const pastSeparator = '\u0020';

const fullPath = (text: string): FullPath => text as FullPath;

export const namespacePathOf = (path: NamespacePath): FullPath => fullPath(path.join(pathSeparator));

export const tablePathOf = ({ namespace, name }: TableRef): FullPath => namespacePathOf([...namespace, name]);

export const namesOf = (path: FullPath): NamespacePath =>
  path === '' ? [] : (path.split(pathSeparator) as ObjectName[]);

export function tableRefOf(path: FullPath): TableRef {
  const names = namesOf(path);
  const name = names.at(-1);
  if (name === undefined) throw new LancegateError('Internal', 'The catalog failed.', { internal: { path } });
  return { namespace: names.slice(0, -1), name };
}

/** Full paths strictly below `path` are those between the two bounds, both exclusive. Not for the root. */
export const boundsBelow = (path: FullPath): { readonly from: FullPath; readonly to: FullPath } => ({
  from: fullPath(`${path}${pathSeparator}`),
  to: fullPath(`${path}${pastSeparator}`),
});
