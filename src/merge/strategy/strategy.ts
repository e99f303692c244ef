import type { MergeCounts } from '../../engine/port/merge-spec.ts';
import type { CountsSource } from '../../telemetry/metrics.ts';
import type { Batch } from '../batch.ts';
import type { Head } from '../head.ts';

/** What each merge of a batch did (P4). */
export interface Counted {
  readonly each: readonly MergeCounts[];
  /** undefined for a merge alone, which the engine counts. */
  readonly by: CountsSource | undefined;
}

/** A batch that is merged, and not yet known to be durable. */
export interface Committed {
  /** The version it made, or the head's if it changed no row. */
  readonly version: number;
  /** To be called once, while the lock is held. */
  readonly count: () => Promise<Counted>;
  /** The key index said where the rows are, so the engine looked for none. */
  readonly isByAddress: boolean;
  /** As `Dataset.gainsByIndex`; false also where the merge was not to use any. */
  readonly gainsByIndex: boolean;
  /** So many fragments had a part in what it took, at the most. */
  readonly mostFragments: number;
  /** Of keys that another program had doubled: those that were deleted. */
  readonly surplusRows: number;
}

/**
 * `does not apply`: another strategy is for such a batch. `overtaken`: another program has committed since the head was
 * looked up. Nothing is written in either case.
 */
export type Outcome = Committed | 'does not apply' | 'overtaken';

/** One way to merge a batch into a branch, in one version or, if it fails, in none. */
export interface Strategy {
  /** Throws what fails the batch: `FaultyPart` says which of its merges did. */
  commit(batch: Batch, head: Head): Promise<Outcome>;
}

/** No version is made of a batch that changes no row. */
export const unchanged = ({ requests }: Batch, { version }: Head): Committed => {
  const nothing = { version, numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0, numAttempts: 1 };
  return {
    version,
    count: async () => ({ each: requests.map(() => nothing), by: undefined }),
    isByAddress: false,
    gainsByIndex: false,
    mostFragments: 0,
    surplusRows: 0,
  };
};
