/**
 * Finds what a branch needs, as a pure function of how it is stored, by three rules:
 *
 * 1. Fragments that are small are merged by size. Two are of one *tier* if their rows have the same power of `fanIn`; `fanIn` of one
 *    tier become one fragment, with all that are smaller. So a row is written again once for each tier.
 * 2. A table that is quiet is put in order: by smaller tiers, and without the rows that are deleted.
 * 3. Rows that no index covers are indexed once they are a quarter of those that it covers, or once the table is quiet. The key of
 *    merges is such an index, which covers nothing at first.
 */
import type { DataType, Schema } from '../arrow/schema/schema.ts';
import { btreeOn, type IndexSpec } from '../engine/port/index-spec.ts';
import type { FragmentFacts, IndexFacts, Layout } from '../engine/port/upkeep.ts';

/** Fewer fragments are not worth a commit while there are writers. */
export const fanIn = 16;
const quietFanIn = 4;
/** The engine writes no longer fragments. */
const fullRows = 2 ** 20;
/** A compaction that writes more keeps other tables waiting. */
const mostBytes = 2 ** 30;
/** Where so much has changed, a fragment or an index is written again. */
const changedPart = 1 / 4;
/** Fewer rows are read as fast without an index. */
const fewRows = 1_000;
/** After so long without a commit, a table is quiet. */
export const quietMs = 5_000;
/** A removal of versions reads the manifests of all, so beside writers it waits for many. */
const manyVersions = 512;

export type CompactionReason = 'small fragments' | 'quiet' | 'by hand';
export type IndexReason = 'merges on the column' | 'many rows' | 'quiet' | 'by hand';

export interface Compaction {
  readonly job: 'compact';
  readonly reason: CompactionReason;
  /** `all`: only the engine can compact the branch, and writers wait for it. */
  readonly fragments: readonly number[] | 'all';
}

export type Plan =
  | Compaction
  | { readonly job: 'index'; readonly reason: IndexReason; readonly indexes: readonly IndexSpec[] }
  | { readonly job: 'prune'; readonly reason: 'old versions' };

export interface Need {
  readonly plan: Plan;
  /** It waits until the table is quiet. */
  readonly isForQuiet: boolean;
}

/** A look at a branch finds it. */
export interface Inspection {
  readonly layout: Layout;
  readonly schema: Schema;
  /** An index is being built from the fragments up to this one, so they stay. */
  readonly lastPinned: number;
}

/** Says what is to be done to the branch, the most important first. `toIndex` are those of `keysToIndex`. */
export function needsOf({ layout, lastPinned }: Inspection, toIndex: readonly IndexSpec[]): readonly Need[] {
  const overdue = lateIndexes(layout, fewRows).filter(({ rows, unindexedRows }) => unindexedRows >= rows * changedPart);
  // Clients wait for their own indexes to have every row.
  const late = lateIndexes(layout).filter(({ isPlain, unindexedRows }) => !isPlain || unindexedRows >= fewRows);
  const free = (isIndexedAgain: boolean): Layout => {
    const movable = isIndexedAgain && isConcurrent(layout) ? layout.fragments : looseFragments(layout);
    return { ...layout, fragments: movable.filter(({ id }) => id === undefined || id > lastPinned) };
  };
  const now = [
    compaction('small fragments', free(overdue.length > 0)),
    indexing('merges on the column', toIndex),
    indexing('many rows', specsOf(overdue)),
  ];
  const whenQuiet = [
    compaction('quiet', free(late.length > 0 || isThinned(sumOf(layout.fragments)))),
    indexing('quiet', specsOf(late)),
  ];
  return [
    ...now.flat().map((plan) => ({ plan, isForQuiet: false })),
    ...whenQuiet.flat().map((plan) => ({ plan, isForQuiet: true })),
  ];
}

/** Half as many go as stay, so that what is read of those that stay costs each little. */
export const needsPruning = (removable: number, kept: number, isQuiet: boolean): boolean =>
  removable >= (isQuiet ? 1 : manyVersions) && removable >= kept / 2;

function compaction(reason: 'small fragments' | 'quiet', layout: Layout): readonly Plan[] {
  const isMovable = layout.fragments.every(({ id }) => id !== undefined);
  if (!isMovable || (reason === 'quiet' && !isConcurrent(layout))) return compactionByEngine(reason, layout);
  const tier = fullTier(layout, reason === 'quiet' ? quietFanIn : fanIn);
  // Then go some of those of which much is deleted.
  const chosen =
    tier.length === 0 && reason === 'quiet' ? withinBytes(layout.fragments.filter(isThinned), layout) : tier;
  return chosen.length === 0 ? [] : [{ job: 'compact', reason, fragments: chosen.flatMap(({ id }) => id ?? []) }];
}

/** Writers wait for it, so it is put off for longer; and it extends the indexes that only the engine knows. */
function compactionByEngine(reason: 'small fragments' | 'quiet', layout: Layout): readonly Plan[] {
  const fewest = reason === 'quiet' ? fanIn : fanIn ** 2;
  const small = layout.fragments.filter(({ rows }) => rows < fullRows);
  return small.length < fewest ? [] : [{ job: 'compact', reason, fragments: 'all' }];
}

const indexing = (reason: IndexReason, indexes: readonly IndexSpec[]): readonly Plan[] =>
  indexes.length === 0 ? [] : [{ job: 'index', reason, indexes }];

/**
 * Finds the fragments of the largest tier that is full, and all that are smaller; none if no tier is full. What they become is in a higher
 * tier than each of them, so how often a row is written again grows with the logarithm of the table.
 */
function fullTier(layout: Layout, size: number): readonly FragmentFacts[] {
  const small = layout.fragments
    .filter((fragment) => isSmall(fragment, layout))
    .toSorted((a, b) => liveRows(a) - liveRows(b));
  const tiers = small.map((fragment) => Math.floor(Math.log(Math.max(1, liveRows(fragment))) / Math.log(size)));
  const full = tiers.findLastIndex((tier, at) => tiers[at - size + 1] === tier);
  return withinBytes(small.slice(0, full + 1), layout);
}

/** Takes the first of them, as many as may be written at once. */
function withinBytes(fragments: readonly FragmentFacts[], layout: Layout): readonly FragmentFacts[] {
  let bytes = 0;
  const end = fragments.findIndex((fragment, at) => {
    bytes += bytesOf(fragment, layout);
    return at > 0 && bytes > mostBytes;
  });
  return end === -1 ? fragments : fragments.slice(0, end);
}

/** As many as a full tier has can be written at once. */
const isSmall = (fragment: FragmentFacts, layout: Layout): boolean =>
  (fragment.rows < fullRows || isThinned(fragment)) && bytesOf(fragment, layout) * fanIn <= mostBytes;

const isThinned = ({ rows, deletedRows }: FragmentFacts): boolean => deletedRows > rows * changedPart;

const liveRows = ({ rows, deletedRows }: FragmentFacts): number => rows - deletedRows;

const bytesOf = (fragment: FragmentFacts, { bytes, rows }: Layout): number =>
  (liveRows(fragment) * bytes) / Math.max(1, rows);

const sumOf = (fragments: readonly FragmentFacts[]): FragmentFacts => ({
  rows: fragments.reduce((sum, { rows }) => sum + rows, 0),
  deletedRows: fragments.reduce((sum, { deletedRows }) => sum + deletedRows, 0),
});

/**
 * Says whether the whole branch can be compacted concurrently with writers. An index that this service cannot build again rules it out:
 * only the engine's own call keeps it complete.
 */
export const isConcurrent = ({ fragments, indexes }: Pick<Layout, 'fragments' | 'indexes'>): boolean =>
  indexes.every(({ spec }) => spec !== undefined) && fragments.every(({ id }) => id !== undefined);

/** An index that is not plain takes long to build, or cannot be built, so the rows it covers stay where they are: all but the newest. */
function looseFragments({ fragments, indexes }: Layout): readonly FragmentFacts[] {
  const foreign = indexes.filter(({ isPlain }) => !isPlain);
  if (foreign.length === 0) return fragments;
  let looseRows = Math.min(...foreign.map(({ unindexedRows }) => unindexedRows));
  const last = fragments.findLastIndex((fragment) => {
    if (looseRows <= 0) return true;
    looseRows -= liveRows(fragment);
    return false;
  });
  return fragments.slice(last + 1);
}

/** Finds the indexes that lack at least `fewest` rows and that this service can build again. */
export const lateIndexes = ({ indexes }: Pick<Layout, 'indexes'>, fewest = 1): readonly IndexFacts[] =>
  indexes.filter(({ spec, unindexedRows }) => spec !== undefined && unindexedRows >= fewest);

export const specsOf = (indexes: readonly IndexFacts[]): readonly IndexSpec[] =>
  indexes.flatMap(({ spec }) => spec ?? []);

/** Finds the indexes on key columns of merges that the table is to get. */
export const keysToIndex = (
  { layout, schema }: Pick<Inspection, 'layout' | 'schema'>,
  keys: readonly string[],
  indexFromRows: number,
): readonly IndexSpec[] =>
  layout.rows < indexFromRows
    ? []
    : keys.filter((key) => !hasIndexOn(layout, key) && isIndexable(schema, key)).map(btreeOn);

/** An index of a kind that does not find equal values is of no use to a merge. */
export const hasIndexOn = ({ indexes }: Pick<Layout, 'indexes'>, column: string): boolean =>
  indexes.some(
    ({ columns: [only, ...others], spec }) =>
      only === column && others.length === 0 && (spec === undefined || spec.options.type === 'BTREE'),
  );

const isIndexable = (schema: Schema, column: string): boolean =>
  schema.fields.some((field) => field.name === column && field.dictionary === undefined && hasOneOrder(field.type));

/**
 * Floats have several orders (NaN, and zero with and without a sign); of `large_utf8` the engine builds no BTREE; other types are
 * rare as keys and were not compared with the merge without an index.
 */
const hasOneOrder = ({ kind }: DataType): boolean =>
  kind === 'int' || kind === 'utf8' || kind === 'date' || kind === 'timestamp';
