import Type from 'typebox';
import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { refuseBranch, tableTarget } from '../../endpoint/route.ts';
import { hasFolderOfDataset, isBelowMain, liesInFilesOf } from '../../kernel/branch-names.ts';
import { LancegateError, notTheFirstStep } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { parseBranchName } from '../../wire/identifiers.ts';

interface Deps {
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: RecoveryMarks;
}

export const deleteBranch =
  ({ access, locks, datasets, recoveryMarks }: Deps) =>
  async ({ table, name }: { table: TableRef; name: BranchName }): Promise<void> => {
    if (isBelowMain(name))
      throw new LancegateError(
        'InvalidTableState',
        `branch '${name}' was not deleted: Lance would delete the whole table with a branch whose name begins with "main/"`,
      );
    const record = await access.findCreated(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      const dataset = await access.latest(record, undefined);
      // Only other programs make branches of such names. The engine removes the whole folder, with what else lies in it.
      if (hasFolderOfDataset(name)) {
        const branches = await dataset.branches.list();
        if (branches.some((other) => liesInFilesOf(other.name, name)))
          throw new LancegateError(
            'InvalidTableState',
            `branch '${name}' was not deleted: its folder holds files of another branch, which would be lost`,
          );
      }
      datasets.forget(record.location);
      await dataset.branches.delete(name, () => recoveryMarks.confirm(table));
      await recoveryMarks.remove(record.id, name).catch(notTheFirstStep);
    } finally {
      leave();
    }
  };

const DeleteBranchBody = Type.Object({ name: Type.String() });

export const deleteBranchRoute = onceRoute('delete_branch', deleteBranch, {
  path: '/v1/table/:id/branches/delete',
  target: tableTarget,
  keyedBy: 'Idempotency-Key or x-request-id',
  action: 'DeleteTableBranch',
  summary: 'Deletes a branch',
  answers: Nothing,
  body: DeleteBranchBody,
  branches: (body, branch) => {
    refuseBranch(branch);
    return [parseBranchName(body.name, 'name')];
  },
  answer: async (operation, { target: table, body }) => {
    await operation({ table, name: parseBranchName(body.name, 'name') });
    return {};
  },
});
