/**
 * What maintenance does to a branch, and when: pure functions of what was seen and measured.
 *
 * Every commit leaves a fragment, and every fragment makes the next commit a little slower. So the question is that of
 * renting or buying: once the debt of a branch has reached the price of a compaction, it is time. With a constant loss per
 * fragment this is the interval with the least total cost. The same holds for the rows that an index does not cover.
 */
import type { Layout } from '../../engine/port/engine.ts';
import type { Debt } from '../observe/debt.ts';
import { isConcurrent, rewritable, smallestTier } from './fragments.ts';
import { plainColumns } from './indexes.ts';
import { type CostFactors, commitMs, indexMs, type JobCost, priceOf, rewriteMs } from './maintenance-cost.ts';

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
      /** Of a tier. */
      readonly fragments?: readonly number[];
    }
  | {
      readonly job: 'index';
      /** `debt`: indexes are rebuilt because of the rows that they do not cover. */
      readonly reason: 'debt' | 'merges on the column';
      readonly columns: readonly string[];
      readonly cost: JobCost;
    }
  | { readonly job: 'prune'; readonly reason: 'old versions' };

/** What the layout of a branch allows. */
export interface Options {
  readonly full: JobCost;
  readonly tier: (JobCost & { readonly fragments: readonly number[] }) | undefined;
  /** Columns that merges ask an index for. */
  readonly missing: (JobCost & { readonly columns: readonly string[] }) | undefined;
  /** Columns that have an index as this service builds it. */
  readonly indexed: (JobCost & { readonly columns: readonly string[] }) | undefined;
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
  };
}

function fullCost(layout: Layout, factors: CostFactors): JobCost {
  const fragments = rewritable(layout.fragments);
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
  ].filter((plan) => plan !== undefined);

/** Fewer commits are not worth a rewrite. */
const minCommits = 16;
/** Every version lists all fragments, so many of them cost disk space, and time in the end. */
const manyCommits = 192;
/** And where writers have to wait. */
const mostCommits = 1_024;
/** The threshold of a compaction rises with the time for which it makes writers wait, up to this. */
const mostMultiplied = 3;

const quietMs = 5_000;
const longQuietMs = 60_000;
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
