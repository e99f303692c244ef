/** The rows as the database holds them. Objects of text to text are kept as JSON text: nothing ever queries inside. */
import type { Kysely } from 'kysely';
import type {
  BranchName,
  IdempotencyKey,
  Location,
  ObjectName,
  Properties,
  TableId,
  TransactionId,
} from '../../kernel/ids.ts';
import type { RequestOwner, TableState, TransactionRecord } from '../port.ts';
import type { FullPath } from './full-path.ts';

export interface NamespaceRow {
  readonly path: FullPath;
  /** null for the root only. */
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

/** Reservations have rows of their own: an overwrite's old table stays visible while the new one is written. */
export interface CreationRow {
  readonly id: string;
  readonly path: FullPath;
  readonly namespace: FullPath;
  readonly location: Location;
}

/**
 * Every location ever given out, so that none is given out twice.
 * `live`: a table or a creation holds it. `discarded`: its files wait to be removed. `retired`: neither; either the
 * files are gone or they were deregistered and belong to another program.
 */
export interface LocationRow {
  readonly location: Location;
  readonly state: 'live' | 'discarded' | 'retired';
  /** The table that has it or had it last; null for rows of before migration 4. */
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

export interface OpenBranchRow {
  readonly table_id: TableId;
  /** Empty for main. */
  readonly branch: string;
  readonly acknowledged_version: number;
  readonly storage_session: string;
}

/** `answer` is null while a commit is only announced; then the columns after it say where. */
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
}

export interface CatalogSchema {
  readonly namespaces: NamespaceRow;
  readonly tables: TableRow;
  readonly creations: CreationRow;
  readonly locations: LocationRow;
  readonly transactions: TransactionRow;
  readonly idempotency_keys: IdempotencyKeyRow;
  readonly open_branches: OpenBranchRow;
}

export type CatalogDb = Kysely<CatalogSchema>;

export const propertiesToJson = (properties: Properties): string => JSON.stringify(properties);
export const propertiesFromJson = (json: string): Properties => JSON.parse(json) as Properties;

/** Parts of rows that fit into one statement: SQLite allows 32766 parameters, and no row has more than 10. */
export const insertable = <Row>(rows: readonly Row[]): readonly (readonly Row[])[] =>
  Array.from({ length: Math.ceil(rows.length / 1000) }, (_, part) => rows.slice(part * 1000, (part + 1) * 1000));
