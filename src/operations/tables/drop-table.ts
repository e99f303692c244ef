import type { TableCatalog, TableRecord } from '../../catalog/port.ts';
import type { TableMaker } from '../../create/table-maker.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';

interface RemovalDeps {
  readonly catalog: TableCatalog;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
}

export type DropTable = ReturnType<typeof dropTable>;

/** Waits for the writers ahead, then the table is gone for everyone at once; its files go afterwards. */
export const dropTable =
  (deps: RemovalDeps & { readonly maker: TableMaker }) =>
  async ({ table }: { table: TableRef }): Promise<TableDescription> => {
    const record = await removeFromCatalog(deps, table, () => deps.catalog.dropTable(table));
    await deps.maker.discard(record);
    return deps.access.describe(record, undefined);
  };

/** Forgets the table and leaves its files where they are. */
export const deregisterTable =
  (deps: RemovalDeps) =>
  async ({ table }: { table: TableRef }): Promise<TableDescription> => {
    const record = await removeFromCatalog(deps, table, () => deps.catalog.deregisterTable(table));
    return deps.access.describe(record, undefined);
  };

async function removeFromCatalog(
  { access, locks, datasets }: RemovalDeps,
  table: TableRef,
  remove: () => Promise<TableRecord>,
): Promise<TableRecord> {
  await access.find(table);
  const leave = await locks.lockExclusive(table, neverAborts);
  try {
    const record = await remove();
    datasets.forget(record.location);
    return record;
  } finally {
    leave();
  }
}
