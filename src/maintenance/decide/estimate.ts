/** What each way of tidying a branch will cost: guessed from its layout, corrected by what it took before. */
import type { Layout } from '../../engine/port/engine.ts';
import type { Cost } from '../observe/branch-history.ts';
import { indexedFragments, isAnythingToPutTogether, mostUnindexedRows, rewrittenRows } from './fragments.ts';
import { type SmallFragments, smallFragments } from './small-fragments.ts';

/** What is put together. `all`: full fragments aside. `new`: those that no index covers. `small`: some chosen ones. */
export type Extent = 'all' | 'new' | 'small';
/** `index`: nothing is put together, the indexes are built anew. */
export type Way = Extent | 'index';

/** Merges read the keys of rows that no index covers: about 2 ms for each 100,000. */
const maxUnindexedRows = 2 ** 20;
/** In small tables, merges would soon gain nothing from an index that misses more. */
const maxUnindexedPart = 1 / 8;

/** Writers should not wait longer than this for a tidying. */
interface WaitLimit {
  readonly maxWaitMs: number;
}

/** What each way will cost; undefined where it is no choice. */
export interface Estimate {
  readonly all: Cost;
  readonly new: Cost | undefined;
  readonly index: Cost | undefined;
  readonly small: (Cost & Pick<SmallFragments, 'ids'>) | undefined;
}

/** Measured over guessed, as seen before. */
export interface Correction {
  readonly heldFactor: number;
  readonly tailMs: number | undefined;
}
export type Corrections = Readonly<Record<Way, Correction>>;

export const noCorrections: Corrections = {
  all: { heldFactor: 1, tailMs: undefined },
  new: { heldFactor: 1, tailMs: undefined },
  index: { heldFactor: 1, tailMs: undefined },
  small: { heldFactor: 1, tailMs: undefined },
};

export function estimateCost(layout: Layout, corrections: Corrections, limits: WaitLimit): Estimate {
  const isIndexed = layout.indexes.some(({ isPlain }) => isPlain);
  const small = chosenSmall(layout, corrections.small, limits);
  return {
    index: isIndexed ? corrected(guessCost(layout, 'index'), corrections.index) : undefined,
    all: corrected(guessCost(layout, 'all'), corrections.all),
    new: mayTidyNew(layout) ? corrected(guessCost(layout, 'new'), corrections.new) : undefined,
    small: small && { ids: small.ids, ...corrected(small, corrections.small) },
  };
}

/** Where the commit takes longer than was guessed, fewer are chosen. */
export const chosenSmall = (layout: Layout, { heldFactor }: Correction, { maxWaitMs }: WaitLimit) =>
  smallFragments(layout, maxWaitMs / heldFactor);

/**
 * Before any was measured: 10 ms, 0.1 ms for each thousand rows and 2.5 ms for each MB that are rewritten while writers
 * wait; beside them as much again, and 0.15 ms for each thousand rows that are indexed anew (local ext4, two
 * cores).
 */
export function guessCost(layout: Layout, way: Exclude<Way, 'small'>): Cost {
  const indexMs = layout.indexes.filter(({ isPlain }) => isPlain).length * layout.rows * 0.00015;
  if (way === 'index') return { heldMs: 0, tailMs: 20 + indexMs };
  const rows = way === 'new' ? mostUnindexedRows(layout) : rewrittenRows(layout);
  const bytes = layout.rows === 0 ? 0 : (layout.bytes * rows) / layout.rows;
  const rewriteMs = 10 + rows * 0.0001 + (bytes / 1e6) * 2.5;
  return { heldMs: rewriteMs, tailMs: way === 'new' ? rewriteMs : rewriteMs + indexMs };
}

const corrected = ({ heldMs, tailMs }: Cost, correction: Correction): Cost => ({
  heldMs: heldMs * correction.heldFactor,
  tailMs: correction.tailMs ?? tailMs,
});

/** How far a measured cost may be from the guess before it counts as an accident. */
const largestFactor = 20;

/** By what guesses are multiplied: half of it new, since one slow run on a busy machine says little of the next. */
export const correctedFactor = (known: number, measured: number): number =>
  Math.min(largestFactor, Math.max(1 / largestFactor, (known + measured) / 2));

/**
 * Tidying all rewrites what is not full, and builds plain indexes anew. While few rows are new, it is enough to put those
 * together. Not where the engine would take others as well, and write the index again while writers wait: it takes fragments
 * with many deletions, and short ones that lie side by side and are in the index.
 */
function mayTidyNew(layout: Layout): boolean {
  const { rows, indexes } = layout;
  if (indexes.length === 0 || mostUnindexedRows(layout) > Math.min(maxUnindexedRows, rows * maxUnindexedPart))
    return false;
  return !isAnythingToPutTogether({ fragments: indexedFragments(layout) });
}
