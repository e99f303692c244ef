/**
 * The body of a query, in the shapes of both client families: the LanceDB SDKs send `vector` and `columns` as arrays, the Lance
 * REST clients as objects. docs/protocol.md has the rules. Everything is bounded here, before it reaches native code.
 */
import Type, { type Static } from 'typebox';
import { formatFieldPath, parseFieldPath } from '../arrow/schema/field-path.ts';
import { distanceTypes } from '../engine/port/index-spec.ts';
import type { NearestSpec, Ordering, QuerySpec, ResultColumn } from '../engine/port/query-spec.ts';
import { ownSql } from '../kernel/checked-sql.ts';
import { invalidInput } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { isSome } from '../kernel/some.ts';
import { readTextSearch } from './full-text-query.ts';
import { Version } from './json-body.ts';
import { type NameCheck, namesOf } from './known-names.ts';
import type { ReadFilter } from './merge-parameters.ts';

/** The binding counts in 32 bits. */
const mostRows = 2 ** 32 - 1;
const limits = { vectors: 1_000, dimension: 65_536, columns: 10_000, orderings: 100 } as const;

const upTo = (maximum: number) => Type.Optional(Type.Integer({ minimum: 0, maximum }));
const flag = Type.Optional(Type.Boolean());

export const QueryBody = Type.Object({
  version: Type.Optional(Version),
  /** SDKs without a limit send 2^63-1, which is no exact number here. */
  k: Type.Optional(Type.Number({ minimum: 0 })),
  offset: upTo(mostRows),
  filter: Type.Optional(Type.String()),
  columns: Type.Optional(Type.Unknown()),
  order_by: Type.Optional(
    Type.Array(
      Type.Object({
        column_name: Type.String(),
        ascending: flag,
        nulls_first: flag,
      }),
      { maxItems: limits.orderings },
    ),
  ),
  with_row_id: flag,
  fast_search: flag,
  prefilter: flag,
  bypass_vector_index: flag,
  vector: Type.Optional(Type.Unknown()),
  vector_column: Type.Optional(Type.String({ minLength: 1 })),
  distance_type: Type.Optional(Type.String()),
  nprobes: upTo(1_000_000),
  minimum_nprobes: upTo(1_000_000),
  maximum_nprobes: upTo(1_000_000),
  ef: upTo(100_000),
  refine_factor: upTo(10_000),
  lower_bound: Type.Optional(Type.Number()),
  upper_bound: Type.Optional(Type.Number()),
  full_text_query: Type.Optional(Type.Unknown()),
  use_lsm: flag,
  use_rte: flag,
});

type Body = Static<typeof QueryBody>;

/** `InvalidInput` names the field at fault. */
export function readQuery(body: Body, readFilter: ReadFilter, check: NameCheck): QuerySpec {
  if (body.use_lsm === true || body.use_rte === true) {
    throw invalidInput('use_lsm, use_rte: this service has no such write path, so nothing of it can be read');
  }
  const nearest = readNearest(body, check);
  const text = body.full_text_query === undefined ? undefined : readTextSearch(body.full_text_query, check);
  if (nearest !== undefined && text !== undefined) {
    throw invalidInput('vector, full_text_query: one query has one of them; ask twice, and fuse the two results');
  }
  return {
    columns: body.columns === undefined ? undefined : readColumns(body.columns, readFilter, check),
    filter: body.filter === undefined ? undefined : readFilter(body.filter, 'filter'),
    limit: readLimit(body.k, nearest !== undefined, text !== undefined),
    offset: body.offset ?? 0,
    orderBy: (body.order_by ?? []).map(readOrdering),
    withRowId: body.with_row_id ?? false,
    fastSearch: body.fast_search ?? false,
    nearest,
    text,
  };
}

function readLimit(k: number | undefined, isNearest: boolean, isText: boolean): number | undefined {
  // The SDKs search for ten by default.
  if (k === undefined) return isNearest || isText ? 10 : undefined;
  if (!Number.isInteger(k)) throw invalidInput('k must be a whole number');
  if (k === 0 && isNearest) throw invalidInput('k must be above 0 to search by vectors');
  return k > mostRows ? undefined : k;
}

const readOrdering = ({
  column_name: column,
  ascending = true,
  nulls_first: nullsFirst = false,
}: NonNullable<Body['order_by']>[number]): Ordering => ({
  column: formatFieldPath(parseFieldPath(column, 'order_by')),
  ascending,
  nullsFirst,
});

/** Names are field paths. An object gives each result column the SQL for its values; the Lance REST form only paths. */
function readColumns(value: unknown, readFilter: ReadFilter, check: NameCheck): readonly ResultColumn[] {
  const columns = columnsOf(value, readFilter, check);
  const names = new Set<string>();
  for (const { name } of columns) {
    if (names.has(name)) throw invalidInput(`columns: ${JSON.stringify(name)} is there twice`);
    names.add(name);
  }
  return columns;
}

const columnForms = { column_names: true, column_aliases: true };
const vectorForms = { single_vector: true, multi_vector: true };

function columnsOf(value: unknown, readFilter: ReadFilter, check: NameCheck): readonly ResultColumn[] {
  if (Array.isArray(value)) return fewColumns(value).map((column: unknown) => listedColumn(column, readFilter));
  if (!isObject(value)) throw invalidInput('columns must be an array or an object');
  const { column_names: names, column_aliases: aliases } = value;
  const hasAliases = typeof aliases === 'object' && aliases !== null;
  if (Array.isArray(names) || hasAliases) check(namesOf(value), columnForms, 'columns');
  if (Array.isArray(names) && !(hasAliases && names.length === 0)) {
    if (hasAliases && Object.keys(aliases).length > 0) {
      throw invalidInput('columns: column_names and column_aliases exclude each other');
    }
    return fewColumns(names).map((name) => pathColumn(name, name));
  }
  if (hasAliases) return orderedEntries(aliases).map(([alias, path]) => pathColumn(alias, path));
  return orderedEntries(value).map(([name, expression]) => sqlColumn(name, expression, readFilter));
}

/** A path; or, of the LanceDB SDKs up to 0.29, a name with the SQL for its values. */
function listedColumn(column: unknown, readFilter: ReadFilter): ResultColumn {
  if (!Array.isArray(column)) return pathColumn(column, column);
  const [name, expression]: readonly unknown[] = column;
  if (column.length === 2 && typeof name === 'string') return sqlColumn(name, expression, readFilter);
  throw invalidInput('columns: a list in it must be a name and the SQL for its values');
}

function sqlColumn(name: string, expression: unknown, readFilter: ReadFilter): ResultColumn {
  if (typeof expression !== 'string') throw invalidInput(`columns: the value of ${name} must be SQL, as a text`);
  return { name: requireName(name), expression: readFilter(expression, `columns.${name}`) };
}

function fewColumns<Column>(columns: readonly Column[]): readonly Column[] {
  if (columns.length > limits.columns) throw invalidInput(`columns: there are more than ${limits.columns}`);
  return columns;
}

/** JavaScript moves the keys that are array indexes to the front of an object, so the order that the client meant is lost. */
function orderedEntries(columns: object): readonly (readonly [name: string, value: unknown])[] {
  const entries = fewColumns(Object.entries(columns));
  const number = entries.find(([name]) => /^(?:0|[1-9]\d*)$/.test(name))?.[0];
  if (number === undefined || entries.length === 1) return entries;
  throw invalidInput(`columns: ${number} cannot be the name of one of several columns: give it a name with a letter`);
}

function pathColumn(name: unknown, path: unknown): ResultColumn {
  if (typeof name !== 'string' || typeof path !== 'string') throw invalidInput('columns must hold names, as texts');
  return { name: requireName(name), expression: ownSql(quoted(path)) };
}

const quoted = (path: string): string =>
  parseFieldPath(path, 'columns')
    .segments.map((segment) => `\`${segment.replaceAll('`', '``')}\``)
    .join('.');

function requireName(name: string): string {
  if (name === '') throw invalidInput('columns: a name is empty');
  return name;
}

function readNearest(body: Body, check: NameCheck): NearestSpec | undefined {
  const vectors = readVectors(body.vector, check);
  if (!isSome(vectors)) return undefined;
  const { vector_column: column, lower_bound: lowerBound, upper_bound: upperBound } = body;
  for (const [name, bound] of Object.entries({ lower_bound: lowerBound, upper_bound: upperBound })) {
    if (bound !== undefined) requireFloat(bound, name);
  }
  return {
    vectors,
    column: column === undefined ? undefined : formatFieldPath(parseFieldPath(column, 'vector_column')),
    distanceType: body.distance_type === undefined ? undefined : readDistanceType(body.distance_type),
    ...readProbes(body),
    ef: noZero(body.ef),
    refineFactor: noZero(body.refine_factor),
    lowerBound,
    upperBound,
    filtersAfter: body.prefilter === false,
    bypassesIndex: body.bypass_vector_index ?? false,
  };
}

function readDistanceType(text: string): NearestSpec['distanceType'] {
  const type = distanceTypes.find((name) => name === text.toLowerCase());
  if (type !== undefined) return type;
  throw invalidInput(`distance_type must be one of ${distanceTypes.join(', ')}`);
}

/** Clients send 0 for what was not set. */
const noZero = (value: number | undefined): number | undefined => (value === 0 ? undefined : value);

/** `nprobes` is the older way to set both. */
function readProbes(body: Body): Pick<NearestSpec, 'minProbes' | 'maxProbes'> {
  const isNewer = body.minimum_nprobes !== undefined || body.maximum_nprobes !== undefined;
  const minProbes = noZero(isNewer ? body.minimum_nprobes : body.nprobes);
  const maxProbes = noZero(isNewer ? body.maximum_nprobes : body.nprobes);
  if (minProbes !== undefined && maxProbes !== undefined && minProbes > maxProbes) {
    throw invalidInput('minimum_nprobes must not be above maximum_nprobes');
  }
  return { minProbes, maxProbes };
}

function readVectors(value: unknown, check: NameCheck): readonly (readonly number[])[] {
  const given = givenVectors(value, check);
  if (!Array.isArray(given)) throw invalidInput('vector must be an array of numbers, or of arrays of numbers');
  if (given.length === 0) return [];
  const vectors: readonly unknown[] = Array.isArray(given[0]) ? given : [given];
  if (vectors.length > limits.vectors) throw invalidInput(`vector: there are more than ${limits.vectors} vectors`);
  const read = vectors.map(readVector);
  const [first] = read;
  const other = read.find(({ length }) => length !== first?.length);
  if (other === undefined) return read;
  throw invalidInput(`vector: one has ${first?.length} numbers and another ${other.length}`);
}

function givenVectors(value: unknown, check: NameCheck): unknown {
  if (value === undefined || value === null) return [];
  if (!isObject(value)) return value;
  check(namesOf(value), vectorForms, 'vector');
  const { single_vector: single, multi_vector: many } = value;
  const isGiven = (vectors: unknown): boolean => Array.isArray(vectors) && vectors.length > 0;
  if (isGiven(single) && isGiven(many)) throw invalidInput('vector: single_vector and multi_vector exclude each other');
  return (isGiven(single) ? single : (many ?? single)) ?? [];
}

function readVector(value: unknown): readonly number[] {
  if (!Array.isArray(value)) throw invalidInput('vector: every vector must be an array of numbers');
  if (value.length === 0 || value.length > limits.dimension) {
    throw invalidInput(`vector: a vector has 1 to ${limits.dimension} numbers`);
  }
  return value.map((number: unknown, i) => requireFloat(number, `vector: number ${i + 1}`));
}

/** The engine searches with 32-bit floats. */
function requireFloat(value: unknown, what: string): number {
  if (typeof value !== 'number') throw invalidInput(`${what} is not a number`);
  if (!Number.isFinite(Math.fround(value))) throw invalidInput(`${what} is beyond a 32-bit float`);
  return value;
}
