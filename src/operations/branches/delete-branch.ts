import { notTheFirstStep } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';

interface Deps {
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: RecoveryMarks;
}

export const deleteBranch =
  ({ access, locks, datasets, recoveryMarks }: Deps) =>
  async ({ table, name }: { table: TableRef; name: BranchName }): Promise<void> => {
    const record = await access.findCreated(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      const dataset = await access.latest(record, undefined);
      datasets.forget(record.location);
      await dataset.deleteBranch(name);
      await recoveryMarks.close(record.id, name).catch(notTheFirstStep);
    } finally {
      leave();
    }
  };
