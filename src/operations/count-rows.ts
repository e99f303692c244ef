import type { Operations } from './commands.ts';
import type { TableAccess } from './table-access.ts';

export const countRows =
  (access: TableAccess): Operations['countRows'] =>
  async ({ table, branch, version, predicate }) => {
    const record = await access.findCreated(table);
    return access.read(record, branch, version, (dataset) => dataset.countRows(predicate));
  };
