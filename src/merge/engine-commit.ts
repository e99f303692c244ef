import type { MergeCounts } from '../engine/port/merge-spec.ts';

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
