/**
 * What the service should hold, as plain data: namespaces, and tables by name, each with its branches, and each branch with every
 * version that can still be read. It knows the protocol and SQL, and nothing of files, engines or queues.
 */
import type { Column } from '../columns.ts';
import { main } from '../reference.ts';
import type { Row } from '../values.ts';

export type Texts = Readonly<Record<string, string>>;

/** All that one version of a branch has. */
export interface State {
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  /** Of the schema. */
  readonly metadata: Texts;
  /** Of columns, by name. A column without any is not in it. */
  readonly fieldMetadata: ReadonlyMap<string, Texts>;
  /** The path of the column by the name of the index. */
  readonly indexes: ReadonlyMap<string, string>;
}

/** A version of a branch; main is a branch too. */
export interface VersionName {
  readonly branch: string;
  readonly version: number;
}

export interface Branch {
  /** Undefined for main. */
  readonly parent: VersionName | undefined;
  readonly versions: ReadonlyMap<number, State>;
}

interface Placed {
  /** As the service named it. */
  readonly location: string;
  readonly properties: Texts;
}
export interface Declared extends Placed {
  readonly state: 'declared';
}
export interface Created extends Placed {
  readonly state: 'created';
  readonly branches: ReadonlyMap<string, Branch>;
  readonly tags: ReadonlyMap<string, VersionName>;
}
export type Table = Declared | Created;

/** What was first sent under a key, and what it was answered. */
export interface KeyedAnswer {
  readonly step: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface World {
  /** The namespace that everything lies in. The names below are relative to it, their parts joined by `$`. */
  readonly root: string;
  readonly namespaces: ReadonlyMap<string, Texts>;
  readonly tables: ReadonlyMap<string, Table>;
  /** Deregistered, by the name that each had. */
  readonly forgotten: ReadonlyMap<string, Table>;
  readonly answers: ReadonlyMap<string, KeyedAnswer>;
}

export const emptyWorld = (root: string): World => ({
  root,
  namespaces: new Map(),
  tables: new Map(),
  forgotten: new Map(),
  answers: new Map(),
});

export const put = <Value>(
  map: ReadonlyMap<string, Value>,
  name: string,
  value: Value | undefined,
): ReadonlyMap<string, Value> => {
  const others = [...map].filter(([other]) => other !== name);
  return new Map(value === undefined ? others : [...others, [name, value]]);
};

/** `undefined` takes the table away. */
export const withTable = (world: World, name: string, table: Table | undefined): World => ({
  ...world,
  tables: put(world.tables, name, table),
});

export const newState = (columns: readonly Column[], rows: readonly Row[]): State => ({
  columns,
  rows,
  metadata: {},
  fieldMetadata: new Map(),
  indexes: new Map(),
});

export const newTable = (placed: Placed, version: number, state: State): Created => ({
  state: 'created',
  location: placed.location,
  properties: placed.properties,
  branches: new Map([[main, { parent: undefined, versions: new Map([[version, state]]) }]]),
  tags: new Map(),
});

export const newestOf = ({ versions }: Branch): number => Math.max(...versions.keys());
export const headOf = (branch: Branch): State => branch.versions.get(newestOf(branch)) as State;

/** The table with one more version of the branch. */
export function withVersion(table: Created, name: string, version: number, state: State): Created {
  const branch = table.branches.get(name) as Branch;
  const versions = new Map([...branch.versions, [version, state]]);
  return { ...table, branches: put(table.branches, name, { ...branch, versions }) };
}

/** The namespace that a table or namespace lies in; the root is ''. */
export const parentOf = (name: string): string => name.split('$').slice(0, -1).join('$');
export const hasNamespace = (world: World, name: string): boolean => name === '' || world.namespaces.has(name);
export const isInside = (name: string, namespace: string): boolean => name.startsWith(`${namespace}$`);

/** Of a branch, those that pruning leaves whatever their age. */
export function heldVersions({ branches, tags }: Created, name: string): ReadonlySet<number> {
  const named = [...tags.values(), ...[...branches.values()].flatMap(({ parent }) => parent ?? [])];
  const held = named.filter(({ branch }) => branch === name).map(({ version }) => version);
  return new Set([...held, newestOf(branches.get(name) as Branch)]);
}
