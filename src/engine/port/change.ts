/** The changes that the engine makes of a branch, one at a time. They are data: a reader process runs them. */
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { Properties } from '../../kernel/ids.ts';
import type { MergeSpec } from './merge-spec.ts';
import type { RowAddressSql } from './row-address.ts';

export type ChangeStep =
  /** The file has the rows. */
  | { readonly kind: 'merge'; readonly spec: MergeSpec }
  /** The file has the rows, of which there are so many. */
  | AppendStep
  /** The file has the rows and the columns of all that the branch has afterwards. */
  | { readonly kind: 'overwrite'; readonly rows: number }
  | UpdateStep
  /** `parameter` is what errors call the condition. */
  | { readonly kind: 'delete'; readonly where: CheckedSql; readonly parameter?: string }
  | { readonly kind: 'add columns'; readonly columns: readonly NewColumn[] }
  /** The file has the columns and no rows: they are NULL in every row. */
  | { readonly kind: 'add null columns' }
  | { readonly kind: 'alter columns'; readonly alterations: readonly ColumnChange[] }
  | { readonly kind: 'drop columns'; readonly columns: readonly string[] }
  | { readonly kind: 'update field metadata'; readonly updates: readonly FieldMetadataChange[] }
  | { readonly kind: 'drop index'; readonly name: string };

interface AppendStep {
  readonly kind: 'append';
  readonly rows: number;
  /**
   * Of each row the one that it takes the place of, which an earlier step has deleted; undefined for one that is new. In a private
   * shadow of a table whose rows have ids it gets the id of that.
   */
  readonly updated?: readonly (RowAddressSql | undefined)[] | undefined;
}

export interface UpdateStep {
  readonly kind: 'update';
  /** undefined for all rows. */
  readonly where: CheckedSql | undefined;
  /** The new values. No expression mentions a column that another one of these sets. */
  readonly set: readonly NewValue[];
  /**
   * More values of the same rows, set one round after the other: a round sees what those before it have set. Only in a private
   * shadow; elsewhere it is `InvalidInput`.
   */
  readonly laterRounds?: readonly (readonly NewValue[])[];
}

export interface NewValue {
  readonly column: string;
  readonly value: CheckedSql;
  /** The value is the same in every row. */
  readonly isConstant?: boolean;
}

export interface NewColumn {
  readonly name: string;
  readonly value: CheckedSql;
}

/** Paths are those of `formatFieldPath`. What is undefined stays as it is. */
export interface ColumnChange {
  readonly path: string;
  readonly rename: string | undefined;
  readonly isNullable: boolean | undefined;
  /** As JSON in Lance's dialect, which describe shows. */
  readonly dataType: string | undefined;
}

interface FieldMetadataChange {
  readonly path: string;
  /** null removes the entry. */
  readonly metadata: Readonly<Record<string, string | null>>;
  /** The entries are all that the field has afterwards. */
  readonly isWhole: boolean;
}

/** A change that leaves all files of rows as they are: a new manifest is the whole of it. */
export type ManifestChange =
  /** All that an older version of the branch has: rows, columns, indexes, settings. */
  | { readonly kind: 'restore'; readonly version: number }
  /** The entries are all that the schema has afterwards. */
  | { readonly kind: 'schema metadata'; readonly metadata: Readonly<Record<string, string>> }
  /** The table configuration has them beside the others that it has. */
  | { readonly kind: 'settings'; readonly settings: Properties }
  | ProposedManifest
  | Fence;

/**
 * What another program has computed: its files lie in the folder of the branch, and its manifest beside those of the versions, under a
 * name of its own. All of it is input of a client. `InvalidInput` says why it cannot be the version; `VersionTaken` where the
 * branch has that version.
 */
export interface ProposedManifest {
  readonly kind: 'proposed';
  readonly version: number;
  /** As `Locations.objectPathOf` of the file. */
  readonly manifestPath: string;
  /** undefined where the client does not say. */
  readonly manifestBytes: number | undefined;
  /** How the client takes manifests to be named: by what is left up to the largest version, or by the version. */
  readonly naming: 'V1' | 'V2' | undefined;
}

/**
 * Nothing changes, and the number after the newest version is taken: a commit to it that another process has begun fails, whenever it
 * arrives, and is not made after it either, unless that process looks and begins anew. The version is known by the transaction, or by its properties.
 */
interface Fence {
  readonly kind: 'fence';
  /** A version-4 UUID. */
  readonly transactionId: string;
  readonly properties: Readonly<Record<string, string>>;
}

/** Every fence has it among the properties of its transaction. */
export const fenceProperty = 'lancegate:fence';

/**
 * Whether all that a step of a kind does shows in its totals: it leaves columns, their metadata and indexes as they are, and an
 * overwrite may remove all rows.
 */
export const changesRowsOnly: Readonly<Record<ChangeStep['kind'], boolean>> = {
  merge: true,
  append: true,
  overwrite: false,
  update: true,
  delete: true,
  'add columns': false,
  'add null columns': false,
  'alter columns': false,
  'drop columns': false,
  'update field metadata': false,
  'drop index': false,
};
