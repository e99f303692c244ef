import Type from 'typebox';
import type { AnswerOf, TableCatalog, TableRecord } from '../../catalog/port.ts';
import type { TableMaker } from '../../create/table-maker.ts';
import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { type RouteInput, tableTarget } from '../../endpoint/route.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import type { TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { StringMap } from '../../wire/json-body.ts';

interface RemovalDeps {
  readonly catalog: TableCatalog;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: Pick<RecoveryMarks, 'forget'>;
}

interface Removal {
  readonly table: TableRef;
}

export type DropTable = ReturnType<typeof dropTable>;

/** Waits for the writers ahead, then the table is gone for everyone at once; its files go afterwards. */
export const dropTable =
  (deps: RemovalDeps & { readonly maker: TableMaker }) =>
  async (command: Removal, _scope?: RequestScope, answered?: AnswerOf<TableDescription>): Promise<TableDescription> => {
    const { record, description } = await remove(deps, command, answered, (ref, answer) =>
      deps.catalog.dropTable(ref, answer),
    );
    await deps.maker.discard(record);
    return description;
  };

/** Forgets the table and leaves its files where they are. */
export const deregisterTable =
  (deps: RemovalDeps) =>
  async (command: Removal, _scope?: RequestScope, answered?: AnswerOf<TableDescription>): Promise<TableDescription> =>
    (await remove(deps, command, answered, (ref, answer) => deps.catalog.dropTable(ref, answer, 'left'))).description;

/** `fromCatalog` removes it, and records the answer with the removal. */
async function remove(
  { access, locks, datasets, recoveryMarks }: RemovalDeps,
  { table }: Removal,
  answered: AnswerOf<TableDescription> | undefined,
  fromCatalog: TableCatalog['dropTable'],
) {
  const describe = (record: TableRecord) => access.describe(record, undefined);
  await access.known(table);
  const leave = await locks.lockExclusive(table, neverAborts);
  try {
    const record = await fromCatalog(table, answeredBy(answered, describe));
    datasets.forget(record.location);
    recoveryMarks.forget(record.id);
    return { record, description: describe(record) };
  } finally {
    leave();
  }
}

const GoneTable = Type.Object({
  id: Type.Array(Type.String()),
  location: Type.Optional(Type.String()),
  properties: StringMap,
});

export const dropTableRoute = onceRoute('drop_table', dropTable, {
  path: '/v1/table/:id/drop',
  target: tableTarget,
  action: 'DropTable',
  summary: 'Drops a table and its files',
  answers: GoneTable,
  body: Nothing,
  answer: async (operation, { target: table }, input) => goneTable(await operation({ table }), input),
});

export const deregisterTableRoute = onceRoute('deregister_table', deregisterTable, {
  path: '/v1/table/:id/deregister',
  target: tableTarget,
  action: 'DeregisterTable',
  summary: 'Forgets a table, and leaves its files',
  answers: GoneTable,
  body: Nothing,
  answer: async (operation, { target: table }, input) => goneTable(await operation({ table }), input),
});

/** What it was like is for those who may describe it. */
function goneTable({ table, location, properties }: TableDescription, { access, database }: RouteInput) {
  const isShown = access.allows('DescribeTable', { kind: 'table', table });
  return {
    id: tableTarget.parts(table, database),
    ...(isShown && { location }),
    properties: isShown ? properties : {},
  };
}
