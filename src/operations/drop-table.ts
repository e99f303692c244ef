import type { Catalog, TableRecord } from '../catalog/port.ts';
import type { TableMaker } from '../create/table-maker.ts';
import type { TableRef } from '../kernel/ids.ts';
import { neverAborts } from '../kernel/read-write-lock.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { Operations } from './commands.ts';

interface Parts {
  readonly catalog: Catalog;
  readonly access: TableAccess;
  readonly maker: TableMaker;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
}

/** Waits for the writers ahead, then the table is gone for everyone at once; its files go afterwards. */
export const dropTable =
  (parts: Parts): Operations['dropTable'] =>
  async ({ table }) => {
    const record = await removeFromCatalog(parts, table, () => parts.catalog.dropTable(table));
    await parts.maker.discard(record.location);
    return parts.access.describe(record, undefined);
  };

/** Forgets the table and leaves its files where they are. */
export const deregisterTable =
  (parts: Parts): Operations['deregisterTable'] =>
  async ({ table }) => {
    const record = await removeFromCatalog(parts, table, () => parts.catalog.deregisterTable(table));
    return parts.access.describe(record, undefined);
  };

async function removeFromCatalog(
  { access, locks, datasets }: Parts,
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
