/**
 * Which fragments are put together where all of them would keep writers out for too long: the engine's own call takes every
 * one of less than a million rows, which with vectors is gigabytes.
 *
 * The smallest first, as many as can be rewritten in the time that writers may wait. None that is larger than all before it
 * together: so a row is written again only into a fragment of at least twice the size, and how often grows with the
 * logarithm of the table (as in a log-structured merge tree; O'Neil et al., 1996).
 */
import type { FragmentFacts, Layout } from '../engine/port.ts';
import { indexedFragments, liveRows } from './fragments.ts';

export interface SmallFragments {
  readonly ids: readonly number[];
  /** A guess before any was measured. */
  readonly heldMs: number;
}

/** Fewer are not worth a commit. */
const leastFragments = 8;
/**
 * To begin with, and to look at the address of every row, deleted ones included: 12 ms for a million of them, six times as
 * much where a tenth is deleted. Then 4 ms for each MB, and 0.3 ms for each thousand rows (768 floats or four; two cores).
 */
const msToBegin = 20;
const msPerRowPassed = 0.00005;
const msPerRow = 0.0003;
const msPerMb = 4;

/** undefined where there are too few, or too few of which the engine lets us choose. */
export function smallFragments(layout: Layout, mostHeldMs: number): SmallFragments | undefined {
  const baseMs = msToBegin + layout.fragments.reduce((sum, { rows }) => sum + rows, 0) * msPerRowPassed;
  const rowMs = msPerRow + (layout.rows === 0 ? 0 : (layout.bytes / layout.rows / 1e6) * msPerMb);
  const mostRows = Math.max(mostHeldMs - baseMs, mostHeldMs / 2) / rowMs;
  const ids: number[] = [];
  let rows = 0;
  for (const { id, live } of bySize(free(layout))) {
    if (rows + live > mostRows || (live > rows && ids.length >= leastFragments)) break;
    ids.push(id);
    rows += live;
  }
  return ids.length < leastFragments ? undefined : { ids, heldMs: baseMs + rows * rowMs };
}

/**
 * Rows that move are in no index any more. Ours is built anew; that of somebody else may be one that only they can build, so
 * what it covers stays where it is: all but the newest.
 */
const free = (layout: Layout): readonly FragmentFacts[] => {
  const indexes = layout.indexes.filter(({ isPlain }) => !isPlain);
  return layout.fragments.slice(indexedFragments({ ...layout, indexes }).length);
};

const bySize = (fragments: readonly FragmentFacts[]) =>
  fragments
    .flatMap((fragment) => (fragment.id === undefined ? [] : [{ id: fragment.id, live: liveRows(fragment) }]))
    .sort((a, b) => a.live - b.live);
