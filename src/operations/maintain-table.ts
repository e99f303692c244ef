import type { Maintenance } from '../maintenance/maintenance.ts';
import type { Operations } from './commands.ts';
import type { TableAccess } from './table-access.ts';

/** Main and every branch, now. */
export const maintainTable =
  (access: TableAccess, maintenance: Maintenance): Operations['maintainTable'] =>
  async ({ table }) => {
    const record = await access.findCreated(table);
    const { id: tableId, location } = record;
    return access.onFilesOf(record, () => maintenance.maintainByHand({ table, tableId, branch: undefined, location }));
  };
