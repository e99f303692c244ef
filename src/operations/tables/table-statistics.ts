import type { TableStatistics } from '../../engine/port/engine.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { TableAccess } from '../../table/table-access.ts';

interface TableStatisticsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
}

/** Sizes of the newest version of a branch. */
export const tableStatistics =
  ({ access }: { access: TableAccess }) =>
  async ({ table, branch }: TableStatisticsCommand): Promise<TableStatistics> => {
    const record = await access.findCreated(table);
    return access.read(record, branch, undefined, (dataset) => dataset.statistics());
  };
