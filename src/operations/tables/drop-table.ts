import type { AnswerOf, TableCatalog, TableRecord } from '../../catalog/port.ts';
import type { TableMaker } from '../../create/table-maker.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { answeredBy } from '../idempotency/idempotency.ts';

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
  async (
    { table }: { table: TableRef },
    _scope?: RequestScope,
    answered?: AnswerOf<TableDescription>,
  ): Promise<TableDescription> => {
    const describe = (record: TableRecord) => deps.access.describe(record, undefined);
    const answer = answeredBy(answered, describe);
    const record = await removeFromCatalog(deps, table, () => deps.catalog.dropTable(table, answer));
    await deps.maker.discard(record);
    return describe(record);
  };

/** Forgets the table and leaves its files where they are. */
export const deregisterTable =
  (deps: RemovalDeps) =>
  async (
    { table }: { table: TableRef },
    _scope?: RequestScope,
    answered?: AnswerOf<TableDescription>,
  ): Promise<TableDescription> => {
    const describe = (record: TableRecord) => deps.access.describe(record, undefined);
    const answer = answeredBy(answered, describe);
    return describe(await removeFromCatalog(deps, table, () => deps.catalog.deregisterTable(table, answer)));
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
