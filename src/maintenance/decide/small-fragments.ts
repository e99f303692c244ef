/**
 * Which fragments are put together beside the writers, where all of them would take long: the engine's own call takes every
 * one of less than a million rows, which with vectors is gigabytes.
 *
 * The smallest, as many as can be rewritten in a second or two and committed while writers may wait, the largest of which is no larger than the others together:
 * so a row is written again only into a fragment of at least twice the size, and how often grows with the logarithm of the
 * table (as in a log-structured merge tree; O'Neil et al., 1996).
 */
import type { FragmentFacts, Layout } from '../../engine/port/engine.ts';
import { indexedFragments, isRewritten, liveRows } from './fragments.ts';

export interface SmallFragments {
  readonly ids: readonly number[];
  /** Guesses before any was measured. Held are the writers for the commit alone. */
  readonly heldMs: number;
  readonly tailMs: number;
}

/** Fewer are not worth a commit. */
const leastFragments = 8;
/** The engine's compaction: 2.5 ms for each MB, 0.1 ms for each thousand rows (768 floats or four; two cores). */
const msToBegin = 20;
const msPerRow = 0.0001;
const msPerMb = 2.5;
/** More at once would keep other tables waiting, and the disk busy. */
const mostMs = 2_000;
/** The commit, and what was deleted meanwhile in each of them. */
const msToCommit = 5;
const msPerFragment = 0.2;

/** How long writers are kept out while so many fragments make way for others. */
export const moveHeldMs = (fragments: number): number => msToCommit + fragments * msPerFragment;

/** undefined where there are too few, or too few of which the engine lets us choose. */
export function smallFragments(layout: Layout, mostHeldMs: number): SmallFragments | undefined {
  const rowMs = msPerRow + (layout.rows === 0 ? 0 : (layout.bytes / layout.rows / 1e6) * msPerMb);
  const mostRows = mostMs / rowMs;
  const mostFragments = Math.max(leastFragments, Math.floor((mostHeldMs - msToCommit) / msPerFragment));
  const candidates = bySize(free(layout)).slice(0, mostFragments);
  let count = 0;
  let rows = 0;
  let before = 0;
  for (const [index, { live }] of candidates.entries()) {
    if (before + live > mostRows) break;
    if (live <= before) [count, rows] = [index + 1, before + live];
    before += live;
  }
  if (count < leastFragments) return undefined;
  const ids = candidates.slice(0, count).map(({ id }) => id);
  return { ids, heldMs: moveHeldMs(count), tailMs: msToBegin + rows * rowMs };
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
    .filter(isRewritten)
    .flatMap((fragment) => (fragment.id === undefined ? [] : [{ id: fragment.id, live: liveRows(fragment) }]))
    .sort((a, b) => a.live - b.live);
