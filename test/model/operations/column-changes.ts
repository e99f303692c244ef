/** What the operations on columns do to a version. Each makes a version, whatever it changes. */
import type { ErrorName } from '#src/kernel/errors.ts';
import { type Column, columnAt } from '../columns.ts';
import { isStruct, type Row, type Value, valueAt } from '../values.ts';
import { type Expression, expressionType, expressionValue } from './expressions.ts';
import { type Change, noCounts, refusedFor } from './row-changes.ts';
import { put, type State, type Texts } from './world.ts';

const ofColumns = (state: State): Change => ({ state, counts: noCounts, isVersion: true });

export interface NewColumn {
  readonly name: string;
  readonly expression: Expression;
}

export function addColumns(state: State, added: readonly NewColumn[]): Change {
  const faults = faultsOfNew(
    state,
    added.map(({ name }) => name),
  );
  const types = added.map(({ expression }) => expressionType(expression, state.columns));
  if (types.includes(undefined)) faults.push('TableColumnNotFound');
  if (faults.length > 0) return { refused: faults };
  const columns = added.map(({ name }, i) => ({ ...(types[i] as Column), name }));
  const rows = state.rows.map((row) => ({
    ...row,
    ...Object.fromEntries(added.map(({ name, expression }) => [name, expressionValue(expression, row)])),
  }));
  return ofColumns({ ...state, columns: [...state.columns, ...columns], rows });
}

/** NULL in every row, so all are nullable. */
export function addNullColumns(state: State, added: readonly Column[]): Change {
  const names = added.map(({ name }) => name);
  const faults = faultsOfNew(state, names);
  const nulls = Object.fromEntries(names.map((name) => [name, null]));
  const rows = state.rows.map((row) => ({ ...row, ...nulls }));
  return refusedFor(faults) ?? ofColumns({ ...state, columns: [...state.columns, ...added], rows });
}

export const isNameTwice = (names: readonly string[]): boolean => new Set(names).size < names.length;

function faultsOfNew({ columns }: State, names: readonly string[]): ErrorName[] {
  const isTaken = isNameTwice(names) || columns.some(({ name }) => names.includes(name));
  return isTaken ? ['TableSchemaValidationError'] : [];
}

export interface Alteration {
  readonly path: string;
  readonly rename?: string | undefined;
  readonly nullable?: boolean | undefined;
  readonly type?: Column['type'] | undefined;
}

/** A type's values as another: the engine casts within these families, and of them only where every value fits. */
const families: readonly (readonly Column['type'][])[] = [
  ['int32', 'int64'],
  ['float32', 'float64'],
  ['utf8', 'large_utf8'],
];

export const castsOf = (type: Column['type']): readonly Column['type'][] =>
  (families.find((family) => family.includes(type)) ?? []).filter((other) => other !== type);

const fits = (value: Value, type: Column['type']): boolean =>
  type !== 'int32' || value === null || BigInt.asIntN(32, value as bigint) === value;

export function alterColumns(state: State, alterations: readonly Alteration[]): Change {
  const faults = alterations.flatMap((alteration) => faultsOfAlteration(state, alteration));
  const paths = alterations.map(({ path }) => path);
  if (new Set(paths).size < paths.length) faults.push('InvalidInput');
  const isCast = alterations.some(({ type }) => type !== undefined);
  if (isCast && alterations.some(({ nullable }) => nullable === false)) faults.push('InvalidInput');
  const altered = atOnce(alterations).reduce(alter, state);
  const names = altered.columns.map(({ name }) => name);
  if (new Set(names).size < names.length) faults.push('TableSchemaValidationError');
  return refusedFor(faults) ?? ofColumns(altered);
}

/** A column may get the name that another one gives up: all step aside before any has its name. */
const atOnce = (alterations: readonly Alteration[]): readonly Alteration[] => [
  ...alterations.map((each, i) => ({ ...each, rename: `\0${i}` })),
  ...alterations.map(({ path, rename = path }, i) => ({ path: `\0${i}`, rename })),
];

function faultsOfAlteration(state: State, { path, nullable, type }: Alteration): ErrorName[] {
  const column = state.columns.find(({ name }) => name === path);
  if (column === undefined) return ['TableColumnNotFound'];
  const faults: ErrorName[] = [];
  const values = state.rows.map((row) => row[path] ?? null);
  if (nullable === false && values.includes(null)) faults.push('InvalidInput');
  if (type === undefined) return faults;
  const isCast = type === column.type || castsOf(column.type).includes(type);
  const isIndexed = [...state.indexes.values()].includes(path);
  if (isIndexed || !isCast || !values.every((value) => fits(value, type))) faults.push('InvalidInput');
  return faults;
}

/** The engine makes a column that is cast anew, without what was said of it. */
function alter(state: State, { path, rename = path, nullable, type }: Alteration): State {
  const isCast = type !== undefined && state.columns.some((column) => column.name === path && column.type !== type);
  const kept = isCast ? put(state.fieldMetadata, path, undefined) : state.fieldMetadata;
  const renamed = <Of>(name: string, of: Of): [string, Of] => [name === path ? rename : name, of];
  return {
    ...state,
    columns: state.columns.map((column) =>
      column.name === path
        ? { ...column, name: rename, type: type ?? column.type, nullable: nullable ?? column.nullable }
        : column,
    ),
    rows: state.rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => renamed(name, value)))),
    fieldMetadata: new Map([...kept].map(([name, texts]) => renamed(name, texts))),
    indexes: new Map(
      [...state.indexes].map(([name, on]) => [name, isWithin(on, path) ? rename + on.slice(path.length) : on]),
    ),
  };
}

/** The column of an index, and the one at a path or a part of it. */
const isWithin = (on: string, path: string): boolean => on === path || on.startsWith(`${path}.`);

/** Columns by their names, or a part of a struct as `struct.part`. Indexes go with their columns. */
export function dropColumns(state: State, paths: readonly string[]): Change {
  const faults: ErrorName[] = [];
  if (paths.some((path) => columnAt(state.columns, path.split('.')) === undefined)) faults.push('TableColumnNotFound');
  if (new Set(paths).size < paths.length) faults.push('InvalidInput');
  const dropped = paths.reduce(drop, state);
  if (dropped.columns.length === 0) faults.push('InvalidInput');
  return refusedFor(faults) ?? ofColumns(dropped);
}

function drop(state: State, path: string): State {
  const [name = '', part] = path.split('.');
  const indexes = new Map([...state.indexes].filter(([, on]) => !isWithin(on, path)));
  if (part !== undefined) {
    return {
      ...state,
      indexes,
      columns: state.columns.map((column) =>
        column.name === name ? { ...column, fields: column.fields.filter((field) => field.name !== part) } : column,
      ),
      rows: state.rows.map((row) => ({ ...row, [name]: without(valueAt(row, [name]), part) })),
    };
  }
  return {
    ...state,
    indexes,
    columns: state.columns.filter((column) => column.name !== name),
    rows: state.rows.map((row) => without(row, name) as Row),
    fieldMetadata: new Map([...state.fieldMetadata].filter(([other]) => other !== name)),
  };
}

const without = (value: Value, name: string): Value =>
  isStruct(value) ? Object.fromEntries(Object.entries(value).filter(([other]) => other !== name)) : value;

export interface MetadataUpdate {
  readonly path: string;
  /** null removes the entry. */
  readonly metadata: Readonly<Record<string, string | null>>;
  readonly replace?: boolean | undefined;
}

export function updateFieldMetadata(state: State, updates: readonly MetadataUpdate[]): Change {
  const faults: ErrorName[] = [];
  const paths = updates.map(({ path }) => path);
  if (paths.some((path) => !state.columns.some(({ name }) => name === path))) faults.push('TableColumnNotFound');
  if (new Set(paths).size < paths.length) faults.push('InvalidInput');
  const fieldMetadata = new Map(state.fieldMetadata);
  for (const { path, metadata, replace = false } of updates) {
    const all = { ...(replace ? {} : fieldMetadata.get(path)), ...metadata };
    const left = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null);
    fieldMetadata.delete(path);
    if (left.length > 0) fieldMetadata.set(path, Object.fromEntries(left));
  }
  return refusedFor(faults) ?? ofColumns({ ...state, fieldMetadata });
}

export const updateSchemaMetadata = (state: State, metadata: Texts): Change => ofColumns({ ...state, metadata });
