/** Which fragments are compacted. */
import type { FragmentFacts, Layout } from '../../engine/port/engine.ts';
import { fragmentsWithin, liveRows, rewriteMs } from './maintenance-cost.ts';

/** The engine leaves longer fragments alone, unless more than this part of their rows is deleted. */
const fullFragmentRows = 2 ** 20;
const deletedPart = 0.1;

const isShort = ({ rows }: FragmentFacts): boolean => rows < fullFragmentRows;
const isThinned = ({ rows, deletedRows }: FragmentFacts): boolean => deletedRows > rows * deletedPart;

/** Those that the engine rewrites if a neighbour is like them. */
export const rewritable = (fragments: readonly FragmentFacts[]): readonly FragmentFacts[] =>
  fragments.filter((fragment) => isShort(fragment) || isThinned(fragment));

/** Whether the engine would write anything. */
export const canBeCompacted = ({ fragments }: Pick<Layout, 'fragments'>): boolean =>
  fragments.some((fragment, at) => isThinned(fragment) || fragments.slice(at, at + 2).filter(isShort).length > 1);

/**
 * Whether all fragments can be compacted concurrently with writers. An index of another program rules it out: only the
 * engine's own call keeps it complete.
 */
export const isConcurrent = ({ fragments, indexes }: Layout): boolean =>
  indexes.every(({ isPlain }) => isPlain) && fragments.every(({ id }) => id !== undefined);

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
  const mostFragments = Math.max(leastFragments, fragmentsWithin(mostLockedMs));
  const candidates = rewritable(withoutForeignIndex(layout))
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

/**
 * An index that another program built may be one that this service cannot rebuild, so the rows it covers stay where they are:
 * all but the newest.
 */
function withoutForeignIndex({ fragments, indexes }: Layout): readonly FragmentFacts[] {
  const foreign = indexes.filter(({ isPlain }) => !isPlain);
  let uncoveredRows = Math.min(...foreign.map(({ unindexedRows }) => unindexedRows));
  if (foreign.length === 0) return fragments;
  let first = fragments.length;
  for (; uncoveredRows > 0 && first > 0; first -= 1) uncoveredRows -= liveRows(fragments[first - 1]!);
  return fragments.slice(first);
}
