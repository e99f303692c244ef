/** What the engine would make of a branch's fragments, by its own rules. */
import type { FragmentFacts, Layout } from '../../engine/port/engine.ts';

/** The engine leaves longer fragments alone, unless more than this part of their rows is deleted. */
export const fullFragmentRows = 2 ** 20;
const crowdedPart = 0.1;

/**
 * Those that any index covers. The others are the newest: an index is built for all there are, and what is put together
 * keeps its place.
 */
export function indexedFragments({ fragments, indexes }: Layout): readonly FragmentFacts[] {
  let end = fragments.length;
  let rows = Math.min(...indexes.map(({ unindexedRows }) => unindexedRows));
  for (; rows > 0 && end > 0; end -= 1) rows -= liveRows(fragments[end - 1]);
  return fragments.slice(0, end);
}

/**
 * Whether all fragments can be put together beside the writers. Not where somebody else has built an index: they alone may be
 * able to build it again for rows that have moved, where the engine's own call does.
 */
export const isMovable = ({ fragments, indexes }: Layout): boolean =>
  indexes.every(({ isPlain }) => isPlain) && fragments.every(({ id }) => id !== undefined);

/** Whether the engine would write anything. Where an index of somebody else covers some of it, it may find less. */
export const isAnythingToPutTogether = ({ fragments }: Pick<Layout, 'fragments'>): boolean =>
  fragments.some((fragment, i) => isCrowded(fragment) || isShortPair(fragments, i));

export const isShort = ({ rows }: FragmentFacts): boolean => rows < fullFragmentRows;
const isShortPair = (fragments: readonly FragmentFacts[], first: number): boolean =>
  fragments.slice(first, first + 2).filter(isShort).length > 1;
const isCrowded = ({ rows, deletedRows }: FragmentFacts): boolean => deletedRows > rows * crowdedPart;

export const liveRows = (fragment: FragmentFacts | undefined): number =>
  (fragment?.rows ?? 0) - (fragment?.deletedRows ?? 0);

export const mostUnindexedRows = ({ indexes }: Layout): number =>
  Math.max(0, ...indexes.map((index) => index.unindexedRows));

/** Beside others like it. */
export const isRewritten = (fragment: FragmentFacts): boolean => isShort(fragment) || isCrowded(fragment);

/** Of all that it would take. */
export const rewrittenRows = ({ fragments }: Layout): number =>
  fragments.filter(isRewritten).reduce((sum, fragment) => sum + liveRows(fragment), 0);
