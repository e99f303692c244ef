/**
 * When a branch is tidied, and when its key gets an index: pure functions of what was seen and measured.
 *
 * Every commit leaves a fragment, and every fragment makes the next commit a little slower. So the question is that of
 * renting or buying: once the commits since the last tidying have lost, together, what a tidying costs, it is time. Where
 * the loss per fragment is constant this is the interval with the least total cost, and no constant of this machine is in
 * it: both sides are measured.
 */
import type { DataType, Schema } from '../arrow/schema.ts';
import type { Layout } from '../engine/port.ts';
import type { Cost } from './branch-history.ts';

export interface UpkeepLimits {
  /** Writers should not wait longer than this for a tidying. */
  readonly maxWaitMs: number;
  /** A table with as many rows gets an index on its merge key. */
  readonly indexFromRows: number;
}

export interface BranchFacts {
  readonly commitsSinceOptimize: number;
  readonly lossMs: number;
  readonly quietForMs: number;
  readonly prunableVersions: number;
}

/** `slower`: the loss outweighs the cost; `many commits`: whatever is measured; `quiet`: nobody is there to wait. */
export type OptimizeReason = 'slower' | 'many commits' | 'quiet' | 'old versions' | 'overdue' | 'by hand';

/** Fewer commits are not worth a rewrite, whatever a noisy measurement says. */
const minCommits = 16;
/** More fragments cost memory and files even where merges do not slow down. */
const maxCommits = 256;
const maxPrunableVersions = 256;
const quietMs = 5_000;
/** A tidying that keeps writers out for too long has to be worth so many times its cost before it is done beside them. */
const patience = 3;
/** And even so there is an end to the fragments. */
const mostCommits = 1_024;

/** The engine leaves longer fragments alone. */
const fullFragmentRows = 2 ** 20;

/**
 * What a tidying will cost, before any was measured: 10 ms, half a microsecond for each row and 4 ms for each MB of those it
 * rewrites (local ext4, two cores; a BTREE included), and as much again beside the writers.
 */
export function guessCost(layout: Layout, commits: number): Cost {
  const rows = rewrittenRows(layout, commits);
  const bytes = layout.rows === 0 ? 0 : (layout.bytes * rows) / layout.rows;
  const heldMs = 10 + rows * 0.0005 + (bytes / 1e6) * 4;
  return { heldMs, tailMs: heldMs };
}

/** How far a measured cost may be from the guess before it counts as an accident. */
const largestFactor = 20;

/** By what guesses are multiplied: half of it new, since one slow run on a busy machine says little of the next. */
export const correctedFactor = (known: number, measured: number): number =>
  Math.min(largestFactor, Math.max(1 / largestFactor, (known + measured) / 2));

/** All of them, unless the branch looks like one that was tidied before: full fragments, one that is not, and the new. */
function rewrittenRows({ rows, fragments, longestFragment }: Layout, commits: number): number {
  const full = Math.floor(rows / fullFragmentRows);
  const isTidy = longestFragment >= fullFragmentRows && fragments - commits <= full + 2;
  return isTidy ? rows % fullFragmentRows : rows;
}

/** Why the branch should be tidied now, or undefined. */
export function reasonToOptimize(facts: BranchFacts, cost: Cost, limits: UpkeepLimits): OptimizeReason | undefined {
  const { commitsSinceOptimize: commits, lossMs, quietForMs, prunableVersions } = facts;
  if (quietForMs >= quietMs) {
    if (commits >= minCommits) return 'quiet';
    return prunableVersions > 0 ? 'old versions' : undefined;
  }
  if (commits < minCommits) return undefined;
  // The part beside the writers costs them about half of one of two cores.
  const costMs = cost.heldMs + cost.tailMs / 2;
  if (cost.heldMs > limits.maxWaitMs) {
    return lossMs >= patience * costMs || commits >= mostCommits ? 'overdue' : undefined;
  }
  if (lossMs >= costMs) return 'slower';
  if (commits >= maxCommits) return 'many commits';
  return prunableVersions >= maxPrunableVersions ? 'old versions' : undefined;
}

/** The first merge may be the only one; the second says that more will come. */
const indexFromMerges = 2;

/** The key columns that should get a BTREE now. Only main: the writer uses no index elsewhere. */
export function columnsToIndex(
  mergesOn: ReadonlyMap<string, number>,
  layout: Layout,
  schema: Schema,
  limits: UpkeepLimits,
): readonly string[] {
  if (layout.rows < limits.indexFromRows) return [];
  return [...mergesOn]
    .filter(([column, merges]) => merges >= indexFromMerges && !hasIndex(layout, column) && isIndexable(schema, column))
    .map(([column]) => column);
}

const hasIndex = ({ indexes }: Layout, column: string): boolean =>
  indexes.some(({ columns }) => columns.length === 1 && columns[0] === column);

const isIndexable = (schema: Schema, column: string): boolean =>
  schema.fields.some((field) => field.name === column && field.dictionary === undefined && indexable(field.type));

/**
 * Types whose order has no second opinion. Floats have (NaN, and zero with and without a sign); the others are rare as keys
 * and were not compared with the merge without an index.
 */
function indexable(type: DataType): boolean {
  switch (type.kind) {
    case 'int':
    case 'utf8':
    case 'large_utf8':
    case 'date':
    case 'timestamp':
      return true;
    default:
      return false;
  }
}
