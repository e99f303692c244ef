import type { AnswerOf, TableCatalog } from '../../catalog/port.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';

interface Deps {
  readonly catalog: TableCatalog;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: RecoveryMarks;
}

/**
 * Waits for the writers ahead; those behind find no table of the old name. No file moves, so the location keeps the old name. What
 * a queue of either name knows of the rows is of an open dataset, which is forgotten: the other name's writers were not seen here.
 * The recovery marks are closed, since the other name may have another owner, who knows nothing of this table.
 */
export const renameTable =
  ({ catalog, access, locks, datasets, recoveryMarks }: Deps) =>
  async (
    { table, to }: { table: TableRef; to: TableRef },
    _scope?: RequestScope,
    answered?: AnswerOf<void>,
  ): Promise<void> => {
    await access.find(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      await recoveryMarks.closeTable(await access.find(table));
      const { location } = await catalog.renameTable(
        table,
        to,
        answeredBy(answered, () => undefined),
      );
      datasets.forget(location);
    } finally {
      leave();
    }
  };
