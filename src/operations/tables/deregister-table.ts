import type { TableRef } from '../../kernel/ids.ts';
import type { TableDescription } from '../../table/table-access.ts';
import { type RemovalDeps, removeFromCatalog } from './drop-table.ts';

/** Forgets the table and leaves its files where they are. */
export const deregisterTable =
  (deps: RemovalDeps) =>
  async ({ table }: { table: TableRef }): Promise<TableDescription> => {
    const record = await removeFromCatalog(deps, table, () => deps.catalog.deregisterTable(table));
    return deps.access.describe(record, undefined);
  };
