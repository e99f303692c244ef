/** Queries of clients in the calls of the native binding. */
import {
  BooleanQuery,
  BoostQuery,
  type FullTextQuery,
  MatchQuery,
  MultiMatchQuery,
  Occur,
  Operator,
  PhraseQuery,
} from '@lancedb/lancedb';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { rowsOfFile } from '../../../arrow/stream/file-stream.ts';
import { type CheckedSql, ownSql } from '../../../kernel/checked-sql.ts';
import { invalidInput } from '../../../kernel/errors.ts';
import { mapSome } from '../../../kernel/some.ts';
import type { MatchText, NearestSpec, PlanForm, QuerySpec, TextQuery, TextSearch } from '../../port/query-spec.ts';
import { engineCall } from './translate-errors.ts';

export interface Plannable {
  select(columns: [name: string, expression: string][]): void;
  explainPlan(verbose: boolean): Promise<string>;
  analyzePlan(): Promise<string>;
}
/** A query, also one for the nearest rows. */
interface NativeQueryBase extends Plannable {
  onlyIf(predicate: CheckedSql): void;
  limit(rows: number): void;
  offset(rows: number): void;
  fastSearch(): void;
  withRowId(): void;
  orderBy(ordering: { columnName: string; ascending: boolean; nullsFirst: boolean }[]): void;
  outputSchema(): Promise<IpcFile>;
  execute(maxBatchLength?: number): Promise<{ next(): Promise<IpcFile | null> }>;
}
interface NativeNearest extends NativeQueryBase {
  column(path: string): void;
  addQueryVector(vector: Float32Array): void;
  distanceType(type: string): void;
  postfilter(): void;
  refineFactor(factor: number): void;
  minimumNprobes(probes: number): void;
  /** 0 is as many as it takes. */
  maximumNprobes(probes: number): void;
  distanceRange(lower: number | null, upper: number | null): void;
  ef(ef: number): void;
  bypassVectorIndex(): void;
}
export interface NativeQuery extends NativeQueryBase {
  fullTextSearch(search: { query: string; columns: string[] | null } | { query: object }): void;
  nearestTo(vector: Float32Array): NativeNearest;
}
interface NativeIndexed {
  listIndices(): Promise<readonly { readonly indexType: string; readonly columns: string[] }[]>;
}
interface QueriedTable extends NativeIndexed {
  query(): NativeQuery;
  takeOffsets(offsets: number[]): Plannable;
}

/** The public classes wrap a native query. */
const inner = (query: FullTextQuery): object => (query as unknown as { readonly inner: object }).inner;

const whatIsAtFault = 'the query';

/** As `RowQueries.query`; a batch has at most `rowsPerBatch` rows. */
export async function* queryResults(
  table: QueriedTable,
  spec: QuerySpec,
  rowsPerBatch: number,
): AsyncIterable<IpcFile> {
  const run = <Result>(call: () => Promise<Result>) => engineCall('query', call, whatIsAtFault);
  if (spec.limit === 0) {
    yield await run(() => schemaOfResult(table, spec));
    return;
  }
  const query = await run(() => nativeQuery(table, spec));
  const batches = await run(() => query.execute(rowsPerBatch));
  let isEmpty = true;
  let rowsLeft = mostRowsOf(spec);
  let next = run(() => batches.next());
  for (;;) {
    const batch = await next;
    if (batch === null) break;
    isEmpty = false;
    if (rowsLeft !== undefined) rowsLeft -= rowsOfFile(batch);
    if (rowsLeft === 0) {
      yield batch;
      break;
    }
    // The engine computes one batch while another one is sent.
    next = run(() => batches.next());
    next.catch(() => undefined); // the next round awaits it, and throws what it throws
    yield batch;
  }
  if (isEmpty) yield await run(() => query.outputSchema());
}

/** Then there is no need to ask the engine for more, which takes a small search as long as all that is around it. */
const mostRowsOf = ({ limit, nearest }: QuerySpec): number | undefined =>
  nearest !== undefined && nearest.vectors.length > 1 ? undefined : limit;

/** A result of no rows. The engine panics where it sorts or searches for none. */
async function schemaOfResult(table: QueriedTable, spec: QuerySpec): Promise<IpcFile> {
  const query = await nativeQuery(table, { ...spec, limit: 1, offset: 0 });
  return query.outputSchema();
}

/** See `RowQueries.explain`. */
export function explainQuery(table: QueriedTable, spec: QuerySpec, form: PlanForm): Promise<string> {
  const run = async (): Promise<string> => {
    const taken = form === 'analysis' ? takenRows(table, spec) : undefined;
    if (form === 'analysis' && taken === undefined) requireAnalysable(spec);
    const query = taken ?? (await nativeQuery(table, spec));
    return withoutLocations(
      form === 'analysis' ? await query.analyzePlan() : await query.explainPlan(form === 'verbose plan'),
    );
  };
  return engineCall('query', run, whatIsAtFault);
}

/** The engine panics, except where it takes rows by their offsets. */
function requireAnalysable({ filter, columns = [], orderBy }: QuerySpec): void {
  const texts = [filter ?? '', ...columns.map(({ expression }) => expression), ...orderBy.map(({ column }) => column)];
  if (texts.some((text) => /_rowoffset/i.test(text))) {
    throw invalidInput('_rowoffset: the engine cannot analyse a query that names it');
  }
}

/** The SDKs take rows by their offsets so, in a condition and nothing else. */
const offsetsAlone = /^\(_rowoffset IN \((\d{1,15}(?:, ?\d{1,15})*)\)\)$/i;

/** The engine panics when it is to analyse a filter on `_rowoffset`; it can analyse its own call for that. */
function takenRows(table: QueriedTable, { filter, columns }: QuerySpec): Plannable | undefined {
  const offsets = offsetsAlone.exec(filter ?? '')?.[1];
  if (offsets === undefined) return undefined;
  const taken = table.takeOffsets(offsets.split(',').map(Number));
  if (columns !== undefined) taken.select(columns.map(({ name, expression }) => [name, expression]));
  return taken;
}

/** A scan names the folder that it reads (P9). The name may hold anything; what follows it is always the projection. */
const withoutLocations = (plan: string): string => plan.replaceAll(/\buri=.*?(?=, projection=\[|$)/gm, 'uri=(hidden)');

async function nativeQuery(table: QueriedTable, spec: QuerySpec): Promise<NativeQueryBase> {
  const query = table.query();
  if (spec.text !== undefined) query.fullTextSearch(await nativeSearch(table, spec.text));
  const searched = spec.nearest === undefined ? query : nearest(query, spec.nearest);
  const { filter, columns, limit, offset, orderBy } = spec;
  if (filter !== undefined) searched.onlyIf(filter);
  if (columns !== undefined) searched.select(columns.map(({ name, expression }) => [name, expression]));
  if (limit !== undefined) searched.limit(limit);
  if (offset > 0) searched.offset(offset);
  if (spec.withRowId) searched.withRowId();
  if (spec.fastSearch) searched.fastSearch();
  if (orderBy.length > 0) searched.orderBy(orderBy.map(({ column, ...order }) => ({ columnName: column, ...order })));
  return searched;
}

function nearest(query: NativeQuery, spec: NearestSpec): NativeNearest {
  const [first, ...others] = mapSome(spec.vectors, (vector) => Float32Array.from(vector));
  const search = query.nearestTo(first);
  for (const vector of others) search.addQueryVector(vector);
  const { column, distanceType, minProbes, maxProbes, ef, refineFactor, lowerBound, upperBound } = spec;
  if (column !== undefined) search.column(column);
  if (distanceType !== undefined) search.distanceType(distanceType);
  setProbes(search, minProbes, maxProbes);
  if (ef !== undefined) search.ef(ef);
  if (refineFactor !== undefined) search.refineFactor(refineFactor);
  if (lowerBound !== undefined || upperBound !== undefined) {
    search.distanceRange(lowerBound ?? null, upperBound ?? null);
  }
  if (spec.filtersAfter) search.postfilter();
  if (spec.bypassesIndex) search.bypassVectorIndex();
  return search;
}

/** The binding compares each with the other as that stands, and its defaults are 20 and 20. */
function setProbes(search: NativeNearest, least: number | undefined, most: number | undefined): void {
  if (least === undefined && most === undefined) return;
  search.maximumNprobes(0);
  if (least !== undefined) search.minimumNprobes(least);
  else if (most !== undefined) search.minimumNprobes(Math.min(most, defaultProbes));
  if (most !== undefined) search.maximumNprobes(most);
}

const defaultProbes = 20;

async function nativeSearch(table: NativeIndexed, search: TextSearch) {
  if (search.kind === 'words') {
    return { query: search.words, columns: search.columns === undefined ? null : [...search.columns] };
  }
  const columns = hasNoColumn(search.query) ? await textColumns(table) : [];
  return { query: inner(textQuery(search.query, columns)) };
}

function hasNoColumn(query: TextQuery): boolean {
  switch (query.kind) {
    case 'match':
    case 'phrase':
      return query.column === undefined;
    case 'boost':
      return hasNoColumn(query.positive) || hasNoColumn(query.negative);
    case 'boolean':
      return query.clauses.some((clause) => hasNoColumn(clause.query));
    case 'multi match':
      return false;
  }
}

/** The binding takes no structured query without a column: such a one is about all that have a full-text index. */
async function textColumns(table: NativeIndexed): Promise<readonly string[]> {
  const indexes = await table.listIndices();
  const columns = indexes
    .filter(({ indexType }) => /^(?:FTS|INVERTED)$/i.test(indexType))
    .flatMap((each) => each.columns);
  if (columns.length === 0) throw new Error('unless an INVERTED index has been created');
  return [...new Set(columns)];
}

const operators = { AND: Operator.And, OR: Operator.Or };
const occurs = { SHOULD: Occur.Should, MUST: Occur.Must, MUST_NOT: Occur.MustNot };

/** `columns` are those of the parts that name none. */
function textQuery(query: TextQuery, columns: readonly string[]): FullTextQuery {
  switch (query.kind) {
    case 'match':
      return query.column === undefined && columns.length > 1
        ? matchInAll(query, columns)
        : matchIn(query, query.column ?? onlyOf(columns));
    case 'phrase':
      return new PhraseQuery(query.terms, query.column ?? onlyOf(columns), { slop: query.slop });
    case 'boost': {
      const [positive, negative] = [textQuery(query.positive, columns), textQuery(query.negative, columns)];
      return new BoostQuery(positive, negative, { negativeBoost: query.negativeBoost });
    }
    case 'multi match': {
      const { terms, boosts, operator } = query;
      const options = { ...(boosts && { boosts: [...boosts] }), operator: operators[operator] };
      return new MultiMatchQuery(terms, [...query.columns], options);
    }
    case 'boolean':
      return new BooleanQuery(query.clauses.map(({ occur, query: part }) => [occurs[occur], textQuery(part, columns)]));
  }
}

function matchIn(query: MatchText, column: string): FullTextQuery {
  const { boost, fuzziness = null, maxExpansions, prefixLength } = query;
  const options = { boost, fuzziness, maxExpansions, prefixLength, operator: operators[query.operator] };
  // The types of the package do not say that null is the automatic fuzziness.
  return new MatchQuery(query.terms, column, options as object);
}

/** As the embedded engine. A multi-match query takes exact terms only. */
function matchInAll(query: MatchText, columns: readonly string[]): FullTextQuery {
  const { terms, boost, operator, fuzziness, prefixLength } = query;
  if (fuzziness !== 0 || prefixLength !== 0) {
    return new BooleanQuery(columns.map((column) => [Occur.Should, matchIn(query, column)]));
  }
  const boosts = columns.map(() => boost);
  return new MultiMatchQuery(terms, [...columns], { boosts, operator: operators[operator] });
}

function onlyOf(columns: readonly string[]): string {
  const [column, ...others] = columns;
  if (column !== undefined && others.length === 0) return column;
  throw new Error('several columns have a full-text index');
}

/** Whether a filter asks for rows by what the engine calls them, which its count cannot do. */
export const namesRows = (filter: CheckedSql): boolean => /_row(?:id|addr|offset)/i.test(filter);

/** Counts what the engine finds but cannot count. */
export async function countByScan(table: QueriedTable, filter: CheckedSql): Promise<number> {
  const query = table.query();
  query.onlyIf(filter);
  query.select([['_rowid', ownSql('_rowid')]]);
  const batches = await query.execute(2 ** 16);
  let rows = 0;
  for (;;) {
    const batch = await batches.next();
    if (batch === null) return rows;
    rows += rowsOfFile(batch);
  }
}

/** A result of so many rows is one batch. */
const fewRows = 1_024;
/** What compresses well on disk is larger than it looks there. */
const mostBatchRows = 8_192;
const batchBytes = 4 * 2 ** 20;

export interface TableSizes {
  readonly bytes: number;
  readonly rows: number;
  readonly leastRowBytes: number;
}

/** So many that a batch is neither large nor a handful; the manifest knows how long the rows are on disk. */
export async function rowsPerBatch(
  { limit = Number.POSITIVE_INFINITY }: QuerySpec,
  sizes: () => Promise<TableSizes>,
): Promise<number> {
  if (limit <= fewRows) return fewRows;
  const { bytes, rows, leastRowBytes } = await sizes();
  const bytesPerRow = Math.max(leastRowBytes, bytes / Math.max(1, rows));
  return Math.min(mostBatchRows, Math.max(fewRows / 8, Math.floor(batchBytes / bytesPerRow)));
}
