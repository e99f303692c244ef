/** Says what the room on the disk allows. */
import type { Space } from '../engine/port/engine.ts';
import type { Layout } from '../engine/port/upkeep.ts';

/** The disk is nearly full at this free part of it. A twentieth of a large disk is much, so there is a limit in bytes too. */
const nearlyFullPart = 1 / 20;

/** Then maintenance removes old versions of all tables as soon as their retention ends, before it writes anything for them. */
export const isNearlyFull = ({ freeBytes, totalBytes, freeFiles, totalFiles }: Space): boolean =>
  freeBytes < Math.min(8 * 2 ** 30, totalBytes * nearlyFullPart) ||
  // Versions of a few rows use up the inodes of a disk long before its bytes.
  freeFiles < Math.min(100_000, totalFiles * nearlyFullPart);

/** A full compaction writes the table's rows and indexes once more while the old ones are still stored. */
export const isTooTightFor = (space: Space, { bytes }: Layout): boolean =>
  isNearlyFull(space) || space.freeBytes < 2 * bytes;
