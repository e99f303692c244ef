/** What a new version does not take over from the one before it. */
import { encode } from '../message-codec.ts';
import { timestamp } from '../messages.ts';

export const deletionFilesFlag = 1n;
export const basePathsFlag = 16n;

/** For `edit` of a manifest. */
export const ofOneVersion = {
  auxiliaryData: undefined,
  tag: undefined,
  timestamp: undefined,
  indexSection: undefined,
  transactionFile: undefined,
  transactionSection: undefined,
  transactionSectionOfLance14: undefined,
} as const;

export const timestampOf = (atMs: number): Buffer =>
  encode(timestamp, { seconds: Math.floor(atMs / 1_000), nanoseconds: Math.floor(atMs % 1_000) * 1_000_000 });
