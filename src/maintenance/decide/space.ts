import type { Layout, Space } from '../../engine/port/engine.ts';

/** On a large disk a twentieth is much, so there is a limit in bytes too. */
const nearlyFullPart = 1 / 20;
const nearlyFullBytes = 8 * 2 ** 30;
/** Versions of a few rows use up the inodes of a disk long before its bytes. */
const nearlyFullFiles = 100_000;

/** Then maintenance removes old versions of all tables as soon as their retention ends, before it writes anything for them. */
export const isNearlyFull = ({ freeBytes, totalBytes, freeFiles, totalFiles }: Space): boolean =>
  freeBytes < Math.min(nearlyFullBytes, totalBytes * nearlyFullPart) ||
  freeFiles < Math.min(nearlyFullFiles, totalFiles * nearlyFullPart);

/** A full compaction writes the table's rows and indexes once more while the old ones are still stored. */
export const isTooTightFor = (space: Space, { bytes }: Layout): boolean =>
  isNearlyFull(space) || space.freeBytes < 2 * bytes;
