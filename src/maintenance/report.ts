import type { KeptHistory } from '../engine/port/upkeep.ts';
import type { LancegateError } from '../kernel/errors.ts';
import type { BranchName, Location, TableId, TableRef } from '../kernel/ids.ts';
import type { CompactionReason, IndexReason } from './plan.ts';

export interface BranchRef {
  readonly table: TableRef;
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
  readonly location: Location;
}

/** Tells a branch from all others. */
export const keyOf = ({ tableId, branch }: Pick<BranchRef, 'tableId' | 'branch'>): string =>
  JSON.stringify([tableId, branch ?? null]);

/** It says what one job did and what it cost, for the log, and for the operator who asked for it. */
export type JobReport = CompactionReport | IndexReport | PruneReport;

interface CommonReport {
  readonly branch: BranchName | undefined;
  readonly durationMs: number;
}

interface RemovedVersions {
  readonly removedVersions: number;
  readonly removedBytes: number;
  /** A tag keeps versions that would have been removed otherwise. */
  readonly isHeldByTag: boolean;
}

export interface CompactionReport extends CommonReport, RemovedVersions {
  readonly job: 'compact';
  readonly reason: CompactionReason;
  /** False if the engine found nothing to compact. */
  readonly isMade: boolean;
  /** How long writers had to wait for the branch's lock. */
  readonly lockedMs: number;
  readonly removedFragments: number;
  /** The indexes of these columns were built again after it. */
  readonly indexed: readonly string[];
}

export interface IndexReport extends CommonReport {
  readonly job: 'index';
  readonly reason: IndexReason;
  readonly column: string;
  readonly rows: number;
  /** Why the service left the index as it is: its options do not go with the rows. */
  readonly refusal?: LancegateError;
}

export interface PruneReport extends CommonReport, RemovedVersions {
  readonly job: 'prune';
  readonly reason: 'little room' | 'old versions' | 'by hand';
  /** What stays for the sake of undo; undefined where that was not looked at. */
  readonly history?: KeptHistory | undefined;
}
