import type { TableRecord } from '../catalog/port.ts';
import type { BranchName } from '../kernel/ids.ts';
import type { OpenDatasets } from './open-datasets.ts';
import type { RecoveryMarks } from './recovery-marks.ts';
import type { TableAccess } from './table-access.ts';
import type { TableLocks } from './table-locks.ts';

interface MarkingDeps {
  readonly access: TableAccess;
  readonly datasets: OpenDatasets;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
}

/**
 * Before files of a branch are staged for a commit that comes later: what a crash leaves in staging is looked for in the branches
 * that are open for writing. Holds the branch's lock for milliseconds.
 */
export async function markBranch(
  { access, datasets, locks, recoveryMarks }: MarkingDeps,
  table: TableRecord,
  branch: BranchName | undefined,
  signal: AbortSignal,
): Promise<void> {
  const leave = await locks.lockShared(table.ref, signal);
  try {
    const unlock = await locks.lockBranch(table.ref, branch, signal);
    try {
      const record = await access.requireUnchanged(table);
      await recoveryMarks.beforeCommit(record, branch, await datasets.latest(record.location, branch));
    } finally {
      unlock();
    }
  } finally {
    leave();
  }
}
