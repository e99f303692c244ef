import type { Layout, Space } from '../engine/port.ts';

/** On a large disk a twentieth is a lot. */
const nearlyFullPart = 1 / 20;
const nearlyFullBytes = 8 * 2 ** 30;

/** From then on old versions of all tables are removed as soon as they may be, before anything else is written for them. */
export const isNearlyFull = ({ freeBytes, totalBytes }: Space): boolean =>
  freeBytes < Math.min(nearlyFullBytes, totalBytes * nearlyFullPart);

/** A tidying writes a table's rows and its indexes once more, beside those that are there. */
export const isTooTightFor = (space: Space, { bytes }: Layout): boolean =>
  isNearlyFull(space) || space.freeBytes < 2 * bytes;
