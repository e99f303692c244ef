/**
 * When a branch is tidied, and when its key gets an index: pure functions of what was seen and measured.
 *
 * Every commit leaves a fragment, and every fragment makes the next commit a little slower. So the question is that of
 * renting or buying: once the commits since the last tidying have lost, together, what a tidying costs, it is time. Where
 * the loss per fragment is constant this is the interval with the least total cost. Both sides are measured, but for the
 * part of the loss that an index would have spared (`branch-history.ts`): merges show only the whole.
 *
 * There are four ways. To put small fragments together, beside the writers (`small-fragments.ts`): that is what is done while
 * merges go on. To put all fragments together that are not full, up to a million rows, and build the indexes anew. To build
 * the indexes anew alone, after which merges that use them read no fragment for its keys. And where the engine alone can put
 * fragments together, for which writers have to wait, only what no index covers, which takes a twentieth of a second however
 * large the table is.
 */
import type { DataType, Schema } from '../../arrow/schema/schema.ts';
import type { Layout } from '../../engine/port/engine.ts';
import type { Cost } from '../observe/branch-history.ts';
import type { Estimate, Way } from './estimate.ts';
import { fullFragmentRows, isAnythingToPutTogether, isShort } from './fragments.ts';

export interface UpkeepLimits {
  /** Writers should not wait longer than this for a tidying. */
  readonly maxWaitMs: number;
  /** A table with as many rows gets an index on its merge key. */
  readonly indexFromRows: number;
}

export interface BranchFacts {
  readonly commitsSinceOptimize: number;
  readonly commitsSinceIndex: number;
  readonly lossMs: number;
  /** What fragments have cost by the model of `branch-history.ts`, those that were there before it was last done to some included. */
  readonly looseLossMs: number;
  /** The part of it that an index over all rows would have spared. */
  readonly scanLossMs: number;
  /** The same since the index was built. */
  readonly scanLossSinceIndexMs: number;
  readonly quietForMs: number;
  readonly prunableVersions: number;
  /** Those that removing the others leaves. */
  readonly keptVersions: number;
}

/**
 * `slower`: the loss outweighs the cost; `many commits`: whatever is measured; `quiet`: nobody is there to wait; `index`: one
 * is about to be built.
 */
export type OptimizeReason = 'slower' | 'many commits' | 'quiet' | 'old versions' | 'overdue' | 'index' | 'by hand';

/** Fewer commits are not worth a rewrite, whatever a noisy measurement says. */
const minCommits = 16;
/** Every version lists all fragments, and removing any reads all that are kept: more cost disk, and time in the end. */
const maxCommits = 192;
const maxPrunableVersions = 512;
/** Where removing them keeps writers out for long. */
const mostPrunableVersions = 4_096;
const quietMs = 5_000;
const longQuietMs = 60_000;
/** Who comes in the middle waits for the rest: the longer that is, the longer nobody must have come. */
const quietPerHeld = 4;
/**
 * A tidying that keeps writers out for twice as long as they should wait has to be worth twice its cost before it is done
 * beside them, and so on up to this.
 */
const mostPatience = 3;
/** And even so there is an end to the fragments. */
const mostCommits = 1_024;

export interface Choice {
  readonly reason: OptimizeReason;
  readonly way: Way;
  /** Those that are put together, where they are chosen one by one. */
  readonly fragments?: readonly number[];
}

/** What should be done to the branch now, and why; undefined: nothing. */
export function chooseTidying(facts: BranchFacts, estimate: Estimate, limits: UpkeepLimits): Choice | undefined {
  const whole = reasonToOptimize(facts, estimate.all, limits);
  if (whole === 'quiet' || whole === 'old versions') return { reason: whole, way: 'all' };
  if (isFullOfVersions(facts, estimate, limits)) return { reason: 'old versions', way: 'all' };
  if (estimate.small !== undefined) return chooseSmall(facts, estimate, estimate.small, limits);
  if (isIndexCheaper(estimate)) return chooseBesideIndex(facts, estimate, limits);
  if (estimate.new === undefined) return chooseAll(facts, estimate, limits);
  // Measured over a few dozen merges that are slow anyway, the loss is lost in the noise; so much of it is sure.
  const lossMs = Math.max(facts.lossMs, facts.scanLossMs);
  const reason = reasonToOptimize({ ...facts, lossMs, prunableVersions: 0 }, estimate.new, limits);
  return reason && { reason, way: 'new' };
}

/** What is left of the loss when the index is kept up to date is what putting fragments together would spare. */
const lossBesideIndex = ({ lossMs, scanLossMs }: BranchFacts): number => Math.max(0, lossMs - scanLossMs);

function chooseSmall(
  facts: BranchFacts,
  estimate: Estimate,
  small: NonNullable<Estimate['small']>,
  limits: UpkeepLimits,
): Choice | undefined {
  const measuredMs = isIndexCheaper(estimate) ? lossBesideIndex(facts) : facts.lossMs;
  const lossMs = Math.max(measuredMs, facts.looseLossMs);
  const reason = reasonToOptimize({ ...facts, lossMs, quietForMs: 0, prunableVersions: 0 }, small, limits);
  return reason ? { reason, way: 'small', fragments: small.ids } : chooseRenewal(facts, estimate);
}

const chooseBesideIndex = (facts: BranchFacts, estimate: Estimate, limits: UpkeepLimits): Choice | undefined =>
  chooseAll({ ...facts, lossMs: lossBesideIndex(facts) }, estimate, limits) ?? chooseRenewal(facts, estimate);

/**
 * Old versions can go with all only, so where that keeps writers waiting they wait once in a while: else the files of a table
 * that is never quiet would stay for ever.
 */
const isFullOfVersions = (
  { prunableVersions, keptVersions }: BranchFacts,
  { all }: Estimate,
  { maxWaitMs }: UpkeepLimits,
): boolean => all.heldMs > maxWaitMs && prunableVersions >= Math.max(mostPrunableVersions, keptVersions);

function chooseAll(facts: BranchFacts, { all }: Estimate, limits: UpkeepLimits): Choice | undefined {
  const reason = reasonToOptimize(facts, all, limits);
  return reason && { reason, way: 'all' };
}

/** The one way that takes little and keeps nobody waiting, where it is the better one. */
export function chooseRenewal(
  { commitsSinceIndex, scanLossSinceIndexMs }: Pick<BranchFacts, 'commitsSinceIndex' | 'scanLossSinceIndexMs'>,
  estimate: Estimate,
): Choice | undefined {
  if (estimate.index === undefined || !isIndexCheaper(estimate)) return undefined;
  const isDue = commitsSinceIndex >= minCommits && scanLossSinceIndexMs >= costOf(estimate.index);
  return isDue ? { reason: 'slower', way: 'index' } : undefined;
}

const isIndexCheaper = ({ index, new: only }: Estimate): boolean =>
  index !== undefined && (only === undefined || costOf(index) <= costOf(only));

/** The part beside the writers costs them about half of one of two cores. */
const costOf = ({ heldMs, tailMs }: Cost): number => heldMs + tailMs / 2;

/** Beside writers, versions are removed when they are many: the engine reads all that are kept, and lists all files. */
export const isPruned = (reason: OptimizeReason): boolean => reason === 'quiet' || reason === 'old versions';

const quietEnoughMs = ({ heldMs }: Cost): number => Math.min(longQuietMs, Math.max(quietMs, quietPerHeld * heldMs));

/** Why the branch should be tidied now, or undefined. */
export function reasonToOptimize(facts: BranchFacts, cost: Cost, limits: UpkeepLimits): OptimizeReason | undefined {
  const { commitsSinceOptimize: commits, lossMs, quietForMs, prunableVersions, keptVersions } = facts;
  if (quietForMs >= quietEnoughMs(cost)) {
    if (commits >= minCommits) return 'quiet';
    return prunableVersions >= (quietForMs < longQuietMs ? minCommits : 1) ? 'old versions' : undefined;
  }
  if (commits < minCommits) return undefined;
  const costMs = costOf(cost);
  if (cost.heldMs > limits.maxWaitMs) {
    const patience = Math.min(mostPatience, cost.heldMs / limits.maxWaitMs);
    return lossMs >= patience * costMs || commits >= mostCommits ? 'overdue' : undefined;
  }
  // To remove any the engine reads all, 0.1 to 0.9 ms each. With half as many to go as to stay it reads three for each.
  if (prunableVersions >= Math.max(maxPrunableVersions, keptVersions / 2, costMs)) return 'old versions';
  if (lossMs >= costMs) return 'slower';
  return commits >= maxCommits ? 'many commits' : undefined;
}

/** The first merge may be the only one; the second says that more will come. */
export const indexFromMerges = 2;

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

/**
 * Fewer short ones are not worth it, unless the table is large: there an index that covers two of them side by side would
 * keep new fragments from being put together by themselves, and be built anew instead, for seconds each time.
 */
const manyFragments = 8;
/** Writers that read all keys for each merge gain by it, though they wait once for as long as so many merges take. */
const mergesWorthWaiting = 10;

/**
 * Whether fragments are put together before the first index is built, rather than at the next tidying, which would have to
 * build it again: for a large table that takes seconds.
 */
export function isTidiedBeforeIndex(layout: Layout, { all }: Estimate, mergeMs: number): boolean {
  const { fragments, indexes, rows } = layout;
  const isLarge = rows >= fullFragmentRows;
  const isInChunks = isLarge ? isAnythingToPutTogether(layout) : fragments.filter(isShort).length >= manyFragments;
  return indexes.length === 0 && isInChunks && all.heldMs <= mergesWorthWaiting * mergeMs;
}

/** Those that have an index as we build it. */
export const plainColumns = (indexes: Layout['indexes']): readonly string[] =>
  indexes.filter(({ isPlain }) => isPlain).flatMap(({ columns }) => columns);

const hasIndex = ({ indexes }: Layout, column: string): boolean =>
  indexes.some(({ columns }) => columns.length === 1 && columns[0] === column);

const isIndexable = (schema: Schema, column: string): boolean =>
  schema.fields.some((field) => field.name === column && field.dictionary === undefined && indexable(field.type));

/**
 * Types whose order has no second opinion. Floats have (NaN, and zero with and without a sign); of `large_utf8` the engine
 * builds no BTREE; the others are rare as keys and were not compared with the merge without an index.
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
