import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { Properties } from '../../kernel/ids.ts';
import type { ChangeStep } from './change.ts';
import type { ChangeLimits } from './change-limits.ts';
import type { ColumnView, TableColumns } from './column-view.ts';
import type { MergeCounts, Projection } from './merge-spec.ts';

/** What one step did. */
export type MergeTotals = Omit<MergeCounts, 'version'>;

/** The rows and columns of a shadow. */
interface ShadowRows {
  /** As they are after the steps so far. */
  columns(): Promise<TableColumns>;
  /** As `Dataset.select`, of the rows as they are after the steps so far. */
  select(columns: readonly Projection[], where: CheckedSql | undefined, limits?: ChangeLimits): AsyncIterable<IpcFile>;
  /** Some columns of the rows as they are after the steps so far. */
  view(columns: readonly string[], limits: ChangeLimits): Promise<ColumnView>;
}

/**
 * A private copy of a branch's newest version, which the engine changes in any number of steps. No reader sees a step; `commit`
 * makes all of them one version of the branch, directly after `baseVersion`, or none. To be ended by `commit` or `discard`. After an
 * error only `discard` is allowed.
 *
 * For tables that only the engine may write (docs/design/shadows-and-workers.md) each step commits to the branch itself: steps are
 * seen before `commit`, and `discard` does not undo them.
 */
export interface Shadow extends ShadowRows {
  readonly baseVersion: number;
  /** False where each step commits to the branch itself. */
  readonly isPrivate: boolean;
  /** The table configuration of the base version. */
  settings(): Properties;
  /** `file` where the step has one. Past its time it throws `TimedOut`. It runs in a reader process (`ReaderDied`). */
  change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeTotals>;
  /** Returns how many rows it deleted. */
  deleteWhere(predicate: CheckedSql, limits?: ChangeLimits): Promise<number>;
  /**
   * At least one step must have changed something. `overtaken`: another program has committed since `baseVersion`; nothing is
   * written, and the work is to be done again in a new shadow. `requireTime` throws where the time for it is over; it is not
   * asked where the steps are committed already. `properties`: see `HeadCommits`. `takesAway`: whether the state before stays as history,
   * where that does not follow from the operation. `settings`: see `ReplaceOptions`, for a private shadow.
   */
  commit(
    requireTime?: () => void,
    properties?: Properties,
    takesAway?: boolean,
    settings?: Properties,
  ): Promise<{ readonly version: number } | 'overtaken'>;
  /** Harmless when repeated, and after `commit`. */
  discard(): void;
}
