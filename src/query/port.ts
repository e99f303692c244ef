/** Queries with SQL that a client wrote, run outside the writers' process (P12). */
import type { CheckedSql } from '../kernel/checked-sql.ts';
import type { BranchName, Location } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';

/** A dataset at an earlier version, or at the newest one. */
export type Reading =
  | { readonly location: Location; readonly branch: BranchName | undefined; readonly version: number }
  | {
      readonly location: Location;
      readonly branch: BranchName | undefined;
      /** Of the open dataset (`Dataset.lineage`). */
      readonly lineage: symbol;
      /** The newest known; the answer is of this one or a newer one (P11). */
      readonly atLeastVersion: number;
    };

export interface Queries {
  /**
   * Answers, or rejects with the reason of the scope's signal, as soon as that aborts. `ReaderDied`; `SlowDown`; and what
   * `Engine.open` and `Dataset.countRows` throw.
   */
  count(reading: Reading, predicate: CheckedSql, scope: RequestScope): Promise<number>;
}
