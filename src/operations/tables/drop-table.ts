import Type from 'typebox';
import type { AnswerOf, DroppedFiles, TableCatalog, TableRecord } from '../../catalog/port.ts';
import type { TableMaker } from '../../create/table-maker.ts';
import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { type RouteInput, tableTarget } from '../../endpoint/route.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import type { TableId, TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { OpenDatasets } from '../../table/open-datasets.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { Trash } from '../../table/trash.ts';
import { StringMap } from '../../wire/json-body.ts';

interface RemovalDeps {
  readonly catalog: TableCatalog;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: Pick<RecoveryMarks, 'forget'>;
  readonly trash: Trash;
}

interface Removal {
  readonly table: TableRef;
}

/** `kept`: the table is in the trash until then, under this id. */
interface DroppedDescription extends TableDescription {
  readonly kept?: { readonly id: TableId; readonly untilMs: number };
}

export type DropTable = ReturnType<typeof dropTable>;

/** Waits for the writers ahead, then the table is gone for everyone at once; it goes to the trash, or its files go afterwards. */
export const dropTable =
  (deps: RemovalDeps & { readonly maker: TableMaker }) =>
  async (
    command: Removal,
    _scope?: RequestScope,
    answered?: AnswerOf<DroppedDescription>,
  ): Promise<DroppedDescription> => {
    const { record, description } = await remove(deps, command, answered, deps.trash.keeps() ?? 'discarded');
    if (description.kept === undefined) await deps.maker.discard(record);
    return description;
  };

/** Forgets the table and leaves its files where they are. */
export const deregisterTable =
  (deps: RemovalDeps) =>
  async (command: Removal, _scope?: RequestScope, answered?: AnswerOf<TableDescription>): Promise<TableDescription> =>
    (await remove(deps, command, answered, 'left')).description;

/** One that is only declared has nothing to keep, unless a program of files has filled it: then it is the table of these. */
async function remove(
  { catalog, access, locks, datasets, recoveryMarks, trash }: RemovalDeps,
  { table }: Removal,
  answered: AnswerOf<DroppedDescription> | undefined,
  files: DroppedFiles,
) {
  const isKept = (record: TableRecord) => typeof files !== 'string' && record.state === 'created';
  const describe = (record: TableRecord): DroppedDescription => ({
    ...access.describe(record, undefined),
    ...(typeof files !== 'string' && isKept(record) && { kept: { id: record.id, untilMs: files.keptUntilMs } }),
  });
  await access.known(table);
  const leave = await locks.lockExclusive(table, neverAborts);
  try {
    if (typeof files !== 'string') await access.find(table).catch(() => undefined);
    const record = await catalog.dropTable(table, answeredBy(answered, describe), files);
    datasets.forget(record.location);
    recoveryMarks.forget(record.id);
    if (isKept(record)) await trash.putAside(record);
    return { record, description: describe(record) };
  } finally {
    leave();
  }
}

const GoneTable = Type.Object({
  id: Type.Array(Type.String()),
  location: Type.Optional(Type.String()),
  properties: StringMap,
  dropped_id: Type.Optional(Type.String()),
  kept_until: Type.Optional(Type.String()),
});

export const dropTableRoute = onceRoute('drop_table', dropTable, {
  path: '/v1/table/:id/drop',
  target: tableTarget,
  action: 'DropTable',
  summary: 'Drops a table, which can be brought back from the trash for a time',
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
function goneTable({ table, location, properties, kept }: DroppedDescription, { access, database }: RouteInput) {
  const isShown = access.allows('DescribeTable', { kind: 'table', table });
  return {
    id: tableTarget.parts(table, database),
    ...(isShown && { location }),
    ...(kept && isShown && { dropped_id: kept.id, kept_until: new Date(kept.untilMs).toISOString() }),
    properties: isShown ? properties : {},
  };
}
