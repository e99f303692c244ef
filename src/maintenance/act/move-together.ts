import type { Dataset } from '../../engine/port/engine.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { BranchRef } from '../job.ts';

export interface MoveParts {
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
}

export interface Move {
  readonly target: BranchRef;
  readonly fragments: readonly number[];
  /** Called while writers are still kept out. */
  readonly onCommitted: () => void;
}

export interface Moved {
  readonly heldMs: number;
  readonly removedFragments: number;
}

/**
 * Puts fragments together beside the writers, who are kept out for the commit of it alone. They are let in once it is made;
 * whoever commits next makes it durable with their own.
 */
export async function moveTogether(
  { locks, recoveryMarks }: MoveParts,
  dataset: Dataset,
  { target: { table, tableId, branch }, fragments, onCommitted }: Move,
): Promise<Moved> {
  const move = await dataset.prepareMove(fragments);
  if (move === undefined) return { heldMs: 0, removedFragments: 0 };
  const leave = await locks.lockBranch(table, branch, neverAborts);
  const startMs = performance.now();
  try {
    await dataset.refresh();
    await recoveryMarks.beforeCommit(tableId, branch, dataset);
    const removedFragments = await move.commit();
    if (removedFragments !== undefined) onCommitted();
    leave();
    const heldMs = performance.now() - startMs;
    await recoveryMarks.acknowledge(tableId, branch, dataset);
    return { heldMs, removedFragments: removedFragments ?? 0 };
  } finally {
    leave();
    move.discard();
  }
}
