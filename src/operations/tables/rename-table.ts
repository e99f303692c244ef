import Type from 'typebox';
import { resourceUid } from '../../auth/policy/cedar-policy.ts';
import type { AnswerOf, TableCatalog } from '../../catalog/port.ts';
import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { parseTableParts } from '../../wire/identifiers.ts';

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
    await access.known(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      await recoveryMarks.closeTable(await access.known(table));
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

const RenameBody = Type.Object({
  new_table_name: Type.String(),
  new_namespace_id: Type.Optional(Type.Array(Type.String())),
  new_namespace: Type.Optional(Type.Array(Type.String())),
});

/** Needs the right on both names. The LanceDB SDKs spell the field of the namespace in another way. */
export const renameTableRoute = onceRoute('rename_table', renameTable, {
  path: '/v1/table/:id/rename',
  target: tableTarget,
  action: 'RenameTable',
  summary: 'Renames a table, or moves it to another namespace',
  answers: Nothing,
  body: RenameBody,
  answer: async (operation, { target: table, body }, input) => {
    const { access, context, database } = input;
    const namespace = body.new_namespace_id ?? body.new_namespace ?? database.shownNamespace(table.namespace);
    const to = database.table(parseTableParts(namespace, body.new_table_name));
    context.note({ newTable: resourceUid({ kind: 'table', table: to }).id });
    access.require('RenameTable', { kind: 'table', table: to });
    await operation({ table, to });
    return {};
  },
});
