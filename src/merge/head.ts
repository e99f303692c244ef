import type { Dataset } from '../engine/port/engine.ts';
import type { BranchName, Location } from '../kernel/ids.ts';

/** The newest version of a branch, while its lock is held. */
export interface Head {
  readonly dataset: Dataset;
  readonly location: Location;
  readonly branch: BranchName | undefined;
  readonly version: number;
}
