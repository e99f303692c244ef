import { notTheFirstStep } from '../kernel/errors.ts';
import type { Maintenance } from '../maintenance/maintenance.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { Operations } from './commands.ts';

/** Main and every branch, now. */
export const maintainTable =
  (access: TableAccess, maintenance: Maintenance): Operations['maintainTable'] =>
  async ({ table }) => {
    const record = await access.findCreated(table);
    const { id: tableId, location } = record;
    const main = { table, tableId, branch: undefined, location };
    return access.onFilesOf(record, () => maintenance.maintainByHand(main).catch(notTheFirstStep));
  };
