/** Reads that run what a client wrote in SQL, outside the process of the writers (P12). */
import type { BranchName, Location } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';

/** A dataset at its newest version, as an open one stands there, or at a version of the past. */
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
  count(reading: Reading, predicate: string, scope: RequestScope): Promise<number>;
}
