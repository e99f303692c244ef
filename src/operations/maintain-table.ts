import { notTheFirstUpkeep } from '../kernel/errors.ts';
import type { TableRef } from '../kernel/ids.ts';
import type { JobReport } from '../maintenance/report.ts';
import type { MaintenanceScheduler } from '../maintenance/scheduler.ts';
import type { TableAccess } from '../table/table-access.ts';

/** Compacts, prunes and indexes main and every branch now; reports each job. */
export const maintainTable =
  ({ access, maintenance }: { access: TableAccess; maintenance: MaintenanceScheduler }) =>
  async ({ table }: { table: TableRef }): Promise<readonly JobReport[]> => {
    const record = await access.findCreated(table);
    const { id: tableId, location } = record;
    const main = { table, tableId, branch: undefined, location };
    return access.onFilesOf(record, () => maintenance.maintainByHand(main).catch(notTheFirstUpkeep));
  };
