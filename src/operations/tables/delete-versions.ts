import type { VersionRange } from '../../engine/port/upkeep.ts';
import { notTheFirstUpkeep } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { MaintenanceScheduler } from '../../maintenance/scheduler.ts';
import type { TableAccess } from '../../table/table-access.ts';

interface DeleteVersionsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly ranges: readonly VersionRange[];
}

/**
 * Removes the versions of a branch that are in one of the ranges, and the files that nothing else needs, as pruning does once their
 * retention has ended. What pruning would leave there at any age stays and does not count: the newest version, one with a tag, one
 * that a branch starts from, and those that an index is being built from. Returns how many it removed.
 */
export const deleteVersions =
  ({ access, maintenance }: { access: TableAccess; maintenance: MaintenanceScheduler }) =>
  async ({ table, branch, ranges }: DeleteVersionsCommand, { signal }: RequestScope): Promise<number> => {
    const record = await access.findCreated(table);
    const target = { table, tableId: record.id, branch, location: record.location };
    const report = await access.onFilesOf(record, () =>
      maintenance.removeVersions(target, ranges, signal).catch(notTheFirstUpkeep),
    );
    if (report === undefined) await access.requireUnchanged(record);
    return report?.removedVersions ?? 0;
  };
