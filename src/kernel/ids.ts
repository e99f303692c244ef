declare const brand: unique symbol;
export type Branded<Base, Name extends string> = Base & { readonly [brand]: Name };

/** One namespace or table has this name: 1-255 UTF-8 bytes, no control characters, not `.` or `..`. `wire/` makes it. */
export type ObjectName = Branded<string, 'ObjectName'>;
/** Names from the root down; empty is the root namespace. */
export type NamespacePath = readonly ObjectName[];
/** A branch other than main has a name. Main is `undefined` wherever a branch is optional. */
export type BranchName = Branded<string, 'BranchName'>;
export type TransactionId = Branded<string, 'TransactionId'>;
/** What a client calls one request across its retries: 1-255 visible ASCII characters. Made by `wire/`. */
export type IdempotencyKey = Branded<string, 'IdempotencyKey'>;
export type TableId = Branded<string, 'TableId'>;
/** Where a table's files are: a path relative to the storage root, such as `prod/users.lance`. Never from a client. */
export type Location = Branded<string, 'Location'>;

/** Makes a location of a path that this service made itself, or the bound of a range of them. */
export const ownLocation = (path: string): Location => path as Location;

export interface TableRef {
  readonly namespace: NamespacePath;
  readonly name: ObjectName;
}

export type Properties = Readonly<Record<string, string>>;

/** How an identifier is shown in answers and errors; `$` is the specification's default delimiter. */
export const showNamespace = (path: NamespacePath): string => (path.length === 0 ? '$' : path.join('$'));
export const showTable = (table: TableRef, delimiter = '$'): string => [...table.namespace, table.name].join(delimiter);
