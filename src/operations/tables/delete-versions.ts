import Type from 'typebox';
import { onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { VersionRange } from '../../engine/port/upkeep.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { MaintenanceScheduler } from '../../maintenance/scheduler.ts';
import type { TableAccess } from '../../table/table-access.ts';
import { Count } from '../../wire/json-body.ts';

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
const deleteVersions =
  ({ access, maintenance }: { access: TableAccess; maintenance: MaintenanceScheduler }) =>
  async ({ table, branch, ranges }: DeleteVersionsCommand, { signal }: RequestScope): Promise<number> => {
    const record = await access.findCreated(table);
    const target = { table, tableId: record.id, branch, location: record.location };
    const report = await access.onFilesOf(record, () => maintenance.removeVersions(target, ranges, signal));
    if (report === undefined) await access.requireUnchanged(record);
    return report?.removedVersions ?? 0;
  };

/** `end_version` is not in the range; -1 leaves it open. */
const Range = Type.Object({ start_version: Type.Integer({ minimum: 0 }), end_version: Type.Integer({ minimum: -1 }) });

/** The specification has records of versions, apart from the table's files; here a version goes with its files. */
export const deleteVersionsRoute = onceRoute('delete_versions', deleteVersions, {
  path: '/v1/table/:id/version/delete',
  target: tableTarget,
  action: 'BatchDeleteTableVersions',
  summary: 'Removes versions of a table that nothing needs, before their retention ends',
  answers: Type.Object({ deleted_count: Count }),
  // More are refused; ranges that meet can be given as one.
  body: Type.Object({ ranges: Type.Array(Range, { maxItems: 1_000 }) }),
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body }, input) => {
    const ranges = body.ranges.map(({ start_version: from, end_version: end }) => ({
      from,
      before: end === -1 ? Number.POSITIVE_INFINITY : end,
    }));
    const deletedVersions = await operation({ table, branch, ranges });
    input.context.note({ deletedVersions });
    return { deleted_count: deletedVersions };
  },
});
