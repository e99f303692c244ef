import type { IpcChunk } from '../arrow/schema/ipc-chunk.ts';
import type { Dataset, MergeCounts } from '../engine/port/engine.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Location } from '../kernel/ids.ts';
import type { MergeRequest } from './merge-request.ts';

/** The branch as it stands when the turn has come. */
export interface CommitTarget {
  readonly dataset: Dataset;
  readonly location: Location;
}

/** The merges of one commit, and the rows they sent: one for each key. */
export interface SentRows {
  readonly requests: readonly [MergeRequest, ...MergeRequest[]];
  readonly chunk: IpcChunk;
}

/** What a merge did, and the commit of the engine that changed the rows. */
export interface Merged {
  readonly counts: MergeCounts;
  readonly commit: EngineCommit;
  /** As `Dataset.gainsByIndex`; false also where the merge was not to use any. */
  readonly gainsByIndex: boolean;
}

export interface EngineCommit {
  /** What the rows were matched against, unless it took the engine several attempts: then something later. */
  readonly matched: number;
  readonly version: number;
  readonly numAttempts: number;
  /** Commits in between that are ours and changed no row. */
  readonly ownVersions: readonly number[];
}

/** Nothing was written, and the same request would fail again: another of its group may not. */
export const isFaultOfOne = (error: unknown): boolean =>
  error instanceof LancegateError && error.entry.written === 'nothing' && error.entry.retry === 'never';
