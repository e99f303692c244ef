/**
 * What maintenance does to a branch, and when: pure functions of what was seen and measured.
 *
 * Every commit leaves a fragment, and every fragment makes the next commit a little slower. So the question is that of
 * renting or buying: once the debt of a branch has reached the price of a compaction, it is time. With a constant loss per
 * fragment this is the interval with the least total cost. The same holds for the rows that an index does not cover.
 */
import type { DataType, Schema } from '../../arrow/schema/schema.ts';
import type { IndexSpec } from '../../engine/port/index-spec.ts';
import type { FragmentFacts, IndexFacts, Layout } from '../../engine/port/upkeep.ts';
import type { Debt } from '../observe/debt.ts';

export interface MaintenancePolicy {
  /** Writers should not wait longer than this for maintenance. */
  readonly maxWaitMs: number;
  /** A table with as many rows gets an index on its merge key. */
  readonly indexFromRows: number;
}

export interface BranchFacts {
  readonly debt: Debt;
  /** Time since the last commit. */
  readonly quietForMs: number;
  readonly removableVersions: number;
  /** Versions that removing the others leaves. */
  readonly keptVersions: number;
  /** Commits that came after the layout was read. */
  readonly unseenCommits: number;
}

/**
 * `debt`: it has reached the price. `many fragments`: whatever they cost. `quiet`: no writer is there to wait. `forced`:
 * writers have to wait for longer than `maxWaitMs`. `before the index`: one is about to be built.
 */
export type CompactionReason = 'debt' | 'many fragments' | 'quiet' | 'forced' | 'before the index' | 'by hand';

/** `tiered`: some small fragments. `full`: all that are not full, after which indexes are rebuilt. */
export type Extent = 'tiered' | 'full';

export type Plan =
  | {
      readonly job: 'compact';
      readonly reason: CompactionReason;
      readonly extent: Extent;
      readonly cost: JobCost;
      /** The ids of the fragments, where the compaction is one of a tier. */
      readonly fragments?: readonly number[];
    }
  | {
      readonly job: 'index';
      /** `debt`: indexes are rebuilt because of the rows that they do not cover. */
      readonly reason: 'debt' | 'merges on the column';
      readonly columns: readonly string[];
      readonly cost: JobCost;
    }
  | {
      readonly job: 'refresh';
      /** `many rows`: those that the indexes do not cover. */
      readonly reason: 'many rows' | 'quiet';
      readonly indexes: readonly IndexSpec[];
    }
  | { readonly job: 'prune'; readonly reason: 'old versions' };

/** What a look at a branch finds. */
export interface Inspection {
  readonly layout: Layout;
  readonly schema: Schema;
}

/** What the layout of a branch allows. */
export interface Options {
  readonly full: JobCost;
  readonly tier: (JobCost & { readonly fragments: readonly number[] }) | undefined;
  /** Columns that merges ask an index for. */
  readonly missing: (JobCost & { readonly columns: readonly string[] }) | undefined;
  /** Columns that have an index as this service builds it. */
  readonly indexed: (JobCost & { readonly columns: readonly string[] }) | undefined;
  /** Indexes that clients wanted, or other programs built, and that this service can build again. */
  readonly refreshable: readonly Refreshable[];
}

interface Refreshable extends Pick<IndexFacts, 'rows' | 'unindexedRows'> {
  readonly spec: IndexSpec;
  /** What it takes to build. */
  readonly ms: number;
}

/** `missing`: columns that are to get an index. */
export function optionsFor(
  layout: Layout,
  missing: readonly string[],
  factors: CostFactors,
  { maxWaitMs }: MaintenancePolicy,
): Options {
  const tier = smallestTier(layout, maxWaitMs / factors.compact);
  const indexing = (columns: readonly string[]) =>
    columns.length === 0
      ? undefined
      : { columns, lockedMs: 0, backgroundMs: indexMs(layout, columns.length) * factors.index };
  return {
    full: fullCost(layout, factors),
    tier: tier && {
      fragments: tier.flatMap(({ id }) => id ?? []),
      lockedMs: commitMs(tier.length) * factors.compact,
      backgroundMs: rewriteMs(layout, tier) * factors.compact,
    },
    missing: indexing(missing),
    indexed: indexing(plainColumns(layout.indexes)),
    refreshable: refreshableIndexes(layout),
  };
}

function fullCost(layout: Layout, factors: CostFactors): JobCost {
  const fragments = rewritable(uncoveredFragments(layout));
  const lockedMs = commitMs(fragments.length) * factors.compact;
  const rewritingMs = rewriteMs(layout, fragments) * factors.compact;
  const indexingMs = indexMs(layout, plainColumns(layout.indexes).length) * factors.index;
  return isConcurrent(layout)
    ? { lockedMs, backgroundMs: rewritingMs + indexingMs }
    : { lockedMs: lockedMs + rewritingMs, backgroundMs: indexingMs };
}

/** What should be done to the branch now, the most important first. */
export const plansFor = (facts: BranchFacts, options: Options, policy: MaintenancePolicy): readonly Plan[] =>
  [
    firstIndex(facts, options),
    quietCompaction(facts, options),
    removalOfVersions(facts),
    busyCompaction(facts, options, policy),
    indexRebuild(facts, options),
    indexRefresh(facts, options),
  ].filter((plan) => plan !== undefined);

/** Fewer commits are not worth a rewrite. */
export const minCommits = 16;
/** Every version lists all fragments, so many of them cost disk space, and time in the end. */
const manyCommits = 192;
/** And where writers have to wait. */
const mostCommits = 1_024;
/** The threshold of a compaction rises with the time for which it makes writers wait, up to this. */
const mostMultiplied = 3;

const quietMs = 5_000;
export const longQuietMs = 60_000;
/** A writer that comes in the middle waits for the rest. */
const quietPerLocked = 4;

function quietCompaction({ debt, quietForMs }: BranchFacts, { full }: Options): Plan | undefined {
  const quietEnoughMs = Math.min(longQuietMs, Math.max(quietMs, quietPerLocked * full.lockedMs));
  if (quietForMs < quietEnoughMs || debt.commitsSinceFull < minCommits) return undefined;
  return { job: 'compact', reason: 'quiet', extent: 'full', cost: full };
}

/** A removal reads the manifests of all versions, so with few to go and many to keep it waits. */
const manyRemovable = 512;

function removalOfVersions({ quietForMs, removableVersions, keptVersions }: BranchFacts): Plan | undefined {
  const isWorthIt = removableVersions >= leastRemovable(quietForMs, keptVersions);
  return isWorthIt ? { job: 'prune', reason: 'old versions' } : undefined;
}

function leastRemovable(quietForMs: number, keptVersions: number): number {
  if (quietForMs >= longQuietMs) return 1;
  return quietForMs >= quietMs ? minCommits : Math.max(manyRemovable, keptVersions / 2);
}

function busyCompaction({ debt }: BranchFacts, options: Options, policy: MaintenancePolicy): Plan | undefined {
  const cost = options.tier ?? options.full;
  const reason = reasonToCompact(debt, cost, policy);
  if (reason === undefined) return undefined;
  const { tier } = options;
  if (tier === undefined) return { job: 'compact', reason, extent: 'full', cost };
  return { job: 'compact', reason, extent: 'tiered', cost, fragments: tier.fragments };
}

function reasonToCompact(
  { commits, fragmentMs }: Debt,
  cost: JobCost,
  { maxWaitMs }: MaintenancePolicy,
): CompactionReason | undefined {
  if (commits < minCommits) return undefined;
  const multiplier = Math.min(mostMultiplied, Math.max(1, cost.lockedMs / maxWaitMs));
  const isDear = fragmentMs >= multiplier * priceOf(cost);
  if (cost.lockedMs > maxWaitMs) return isDear || commits >= mostCommits ? 'forced' : undefined;
  if (isDear) return 'debt';
  return commits >= manyCommits ? 'many fragments' : undefined;
}

function indexRebuild({ debt }: BranchFacts, { indexed }: Options): Plan | undefined {
  if (indexed === undefined || debt.unindexed < minCommits || debt.scanMs < priceOf(indexed)) return undefined;
  return { job: 'index', reason: 'debt', columns: indexed.columns, cost: indexed };
}

/** An index is built again once this part of its rows is not in it, so a growing table is indexed a few times over at most. */
const grownPart = 1 / 4;
/** Fewer rows are scanned in no time. */
const fewRows = 1_000;
/** Where no one writes, builds take a third of the time at most. */
const quietPerBuild = 2;

/** Queries scan the rows that an index does not cover, so it is only ever late. */
function indexRefresh({ quietForMs, unseenCommits }: BranchFacts, { refreshable }: Options): Plan | undefined {
  const grown = refreshable.filter(({ rows, unindexedRows }) => unindexedRows >= Math.max(fewRows, rows * grownPart));
  if (grown.length > 0) return { job: 'refresh', reason: 'many rows', indexes: grown.map(({ spec }) => spec) };
  const stale = refreshable.filter(({ unindexedRows }) => unindexedRows > 0 || unseenCommits > 0);
  const ms = stale.reduce((sum, each) => sum + each.ms, 0);
  if (stale.length === 0 || quietForMs < Math.max(quietMs, quietPerBuild * ms)) return undefined;
  return { job: 'refresh', reason: 'quiet', indexes: stale.map(({ spec }) => spec) };
}

/** What is compacted after an index was built is not in it, so a table in many pieces is compacted first: once. */
function firstIndex({ debt }: BranchFacts, { missing, indexed, tier }: Options): Plan | undefined {
  if (missing === undefined) return undefined;
  const wasCompacted = debt.commits < debt.commitsSinceFull;
  if (indexed !== undefined || tier === undefined || wasCompacted) {
    return { job: 'index', reason: 'merges on the column', columns: missing.columns, cost: missing };
  }
  const { fragments } = tier;
  return { job: 'compact', reason: 'before the index', extent: 'tiered', cost: tier, fragments };
}

/** Guessed from the layout of a branch, corrected by what jobs took there before. */
interface JobCost {
  /** Writers wait for it. */
  readonly lockedMs: number;
  /** Writers go on. */
  readonly backgroundMs: number;
}

/** Background work costs the writers about half of one of two cores. */
const priceOf = ({ lockedMs, backgroundMs }: JobCost): number => lockedMs + backgroundMs / 2;

/** Measured time by guessed time. */
export interface CostFactors {
  readonly compact: number;
  readonly index: number;
}

export const noFactors: CostFactors = { compact: 1, index: 1 };

/** A measurement that differs from the guess by more counts as an accident. */
const largestFactor = 20;

/** Half of it is new, since one slow run on a busy machine says little of the next. */
export const corrected = (known: number, guessMs: number, measuredMs: number): number =>
  Math.min(largestFactor, Math.max(1 / largestFactor, (known + (known * measuredMs) / Math.max(1, guessMs)) / 2));

const liveRows = ({ rows, deletedRows }: FragmentFacts): number => rows - deletedRows;

/** Guesses of the engine's compaction, its commit, and a BTREE index; two cores, local ext4. */
const msToBegin = 20;
const msPerRow = 0.0001;
const msPerMb = 2.5;
const msToCommit = 5;
const msPerFragment = 0.2;
const indexMsPerRow = 0.00015;

const rewriteMs = ({ bytes, rows }: Layout, fragments: readonly FragmentFacts[]): number => {
  const msPerRewrittenRow = msPerRow + (rows === 0 ? 0 : (bytes / rows / 1e6) * msPerMb);
  return msToBegin + msPerRewrittenRow * fragments.reduce((sum, fragment) => sum + liveRows(fragment), 0);
};

const commitMs = (fragments: number): number => msToCommit + fragments * msPerFragment;

/** A vector is compared with many others. */
const refreshMsPerRow = { vector: 0.05, other: 0.002 };

const refreshableIndexes = ({ rows: all, indexes }: Layout): readonly Refreshable[] =>
  indexes.flatMap(({ spec, isPlain, rows, unindexedRows }) => {
    if (isPlain || spec === undefined) return [];
    const ms = msToBegin + all * refreshMsPerRow['vector' in spec.options ? 'vector' : 'other'];
    return [{ spec, rows, unindexedRows, ms }];
  });

const indexMs = ({ rows }: Layout, columns: number): number => columns * (msToBegin + rows * indexMsPerRow);

/** The engine leaves longer fragments alone, unless more than this part of their rows is deleted. */
const fullFragmentRows = 2 ** 20;
const deletedPart = 0.1;

const isShort = ({ rows }: FragmentFacts): boolean => rows < fullFragmentRows;
const isThinned = ({ rows, deletedRows }: FragmentFacts): boolean => deletedRows > rows * deletedPart;

/** The fragments that the engine rewrites if a neighbour is like them. */
const rewritable = (fragments: readonly FragmentFacts[]): readonly FragmentFacts[] =>
  fragments.filter((fragment) => isShort(fragment) || isThinned(fragment));

/** Whether the engine would write anything. */
export const canBeCompacted = ({ fragments }: Pick<Layout, 'fragments'>): boolean =>
  fragments.some((fragment, at) => isThinned(fragment) || fragments.slice(at, at + 2).filter(isShort).length > 1);

/**
 * Whether all fragments can be compacted concurrently with writers. An index that this service cannot build again rules it out:
 * only the engine's own call keeps it complete.
 */
export const isConcurrent = ({ fragments, indexes }: Layout): boolean =>
  indexes.every(({ isPlain, spec }) => isPlain || spec !== undefined) && fragments.every(({ id }) => id !== undefined);

/** Fewer are not worth a commit. */
const leastFragments = 8;
/** A longer compaction would keep other tables waiting, and the disk busy. */
const mostMs = 2_000;

/**
 * The tier to compact while merges go on: the smallest fragments, the largest of which is no larger than the others together.
 * So a row is only ever rewritten into a fragment of at least twice the size, and how often that happens grows with the
 * logarithm of the table (a log-structured merge tree; O'Neil et al., 1996). Undefined if there are too few.
 */
export function smallestTier(layout: Layout, mostLockedMs: number): readonly FragmentFacts[] | undefined {
  const mostFragments = Math.max(leastFragments, Math.floor((mostLockedMs - msToCommit) / msPerFragment));
  const candidates = rewritable(uncoveredFragments(layout))
    .filter(({ id }) => id !== undefined)
    .toSorted((a, b) => liveRows(a) - liveRows(b))
    .slice(0, mostFragments);
  let tier = 0;
  let rowsBefore = 0;
  for (const [at, fragment] of candidates.entries()) {
    if (rewriteMs(layout, candidates.slice(0, at + 1)) > mostMs) break;
    if (liveRows(fragment) <= rowsBefore) tier = at + 1;
    rowsBefore += liveRows(fragment);
  }
  return tier < leastFragments ? undefined : candidates.slice(0, tier);
}

/** An index that is not plain takes long to build, or cannot be built, so the rows it covers stay where they are: all but the newest. */
export function uncoveredFragments({ fragments, indexes }: Layout): readonly FragmentFacts[] {
  const foreign = indexes.filter(({ isPlain }) => !isPlain);
  let uncoveredRows = Math.min(...foreign.map(({ unindexedRows }) => unindexedRows));
  if (foreign.length === 0) return fragments;
  let first = fragments.length;
  for (; uncoveredRows > 0 && first > 0; first -= 1) uncoveredRows -= liveRows(fragments[first - 1]!);
  return fragments.slice(first);
}

/** Whether so much is deleted that all fragments are rewritten before the indexes are built again. */
export function isThin({ fragments }: Pick<Layout, 'fragments'>): boolean {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  const deleted = sum(fragments.map(({ deletedRows }) => deletedRows));
  return deleted > deletedPart * sum(fragments.map(({ rows }) => rows));
}

/** The first merge may be the only one; the second says that more will come. */
export const indexFromMerges = 2;

/** The key columns that should get an index now. Only for main: merges into other branches use none. */
export function columnsToIndex(
  mergesOn: ReadonlyMap<string, number>,
  { layout, schema }: Inspection,
  { indexFromRows }: Pick<MaintenancePolicy, 'indexFromRows'>,
): readonly string[] {
  if (layout.rows < indexFromRows) return [];
  return [...mergesOn]
    .filter(([column, merges]) => merges >= indexFromMerges && !hasIndex(layout, column) && isIndexable(schema, column))
    .map(([column]) => column);
}

/** The columns that have an index as this service builds it. */
export const plainColumns = (indexes: Layout['indexes']): readonly string[] =>
  indexes.filter(({ isPlain }) => isPlain).flatMap(({ columns }) => columns);

/** Of another kind than those that find equal values, an index is of no use to a merge. */
const hasIndex = ({ indexes }: Layout, column: string): boolean =>
  indexes.some(
    ({ columns: [only, ...others], spec }) =>
      only === column && others.length === 0 && (spec === undefined || spec.options.type === 'BTREE'),
  );

const isIndexable = (schema: Schema, column: string): boolean =>
  schema.fields.some((field) => field.name === column && field.dictionary === undefined && indexable(field.type));

/**
 * Types with one order only. Floats have several (NaN, and zero with and without a sign); of `large_utf8` the engine builds
 * no BTREE; the others are rare as keys and were not compared with the merge without an index.
 */
function indexable(type: DataType): boolean {
  switch (type.kind) {
    case 'int':
    case 'utf8':
    case 'date':
    case 'timestamp':
      return true;
    default:
      return false;
  }
}
