import type { Catalog, TableRecord } from '../catalog/port.ts';
import type { TableMaker } from '../create/table-maker.ts';
import type { TableRef } from '../kernel/ids.ts';
import { untilItsTurn } from '../kernel/turns.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableGates } from '../table/table-locks.ts';
import type { Operations } from './commands.ts';

interface Parts {
  readonly catalog: Catalog;
  readonly access: TableAccess;
  readonly maker: TableMaker;
  readonly gates: TableGates;
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
  { access, gates, datasets }: Parts,
  table: TableRef,
  remove: () => Promise<TableRecord>,
): Promise<TableRecord> {
  await access.find(table);
  const leave = await gates.enterAlone(table, untilItsTurn);
  try {
    const record = await remove();
    datasets.forget(record.location);
    return record;
  } finally {
    leave();
  }
}
