import Type from 'typebox';
import { resourceUid } from '../../auth/policy/cedar-policy.ts';
import type { AnswerOf, TableRecord, TrashCatalog } from '../../catalog/port.ts';
import { notInTrash } from '../../catalog/refusals.ts';
import { onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import { answeredBy } from '../../idempotency/idempotency.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { TableId, TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { Trash } from '../../table/trash.ts';
import { parseTableParts } from '../../wire/identifiers.ts';
import { StringMap } from '../../wire/json-body.ts';

interface Deps {
  readonly catalog: TrashCatalog;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly trash: Trash;
}

interface UndropCommand {
  readonly table: TableRef;
  /** The one that was dropped last where this is undefined. */
  readonly id: TableId | undefined;
  readonly to: TableRef;
}

/** Brings a table back from the trash, with its rows, versions, indexes, tags and branches, under its name or another one. */
const undropTable =
  ({ catalog, access, locks, trash }: Deps) =>
  async (
    { table, id, to }: UndropCommand,
    _scope?: RequestScope,
    answered?: AnswerOf<TableDescription>,
  ): Promise<TableDescription> => {
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      const dropped = await trash.find(table, id);
      if (dropped === undefined) throw notInTrash(table);
      const describe = (record: TableRecord) => access.describe(record, undefined);
      await trash.bringBack(dropped);
      try {
        return describe(await catalog.undropTable(table, dropped.id, to, answeredBy(answered, describe)));
      } catch (error) {
        await trash.putAside(dropped);
        throw error;
      }
    } finally {
      leave();
    }
  };

export const droppedId = Type.Optional(
  Type.String({ description: 'Which of the tables that were dropped under this name; a listing of the trash has it.' }),
);

/** It comes from a client, and goes to the database. `InvalidInput`. */
export function readDroppedId(text: string | undefined): TableId | undefined {
  if (text === undefined || /^[\w-]{1,64}$/.test(text)) return text as TableId | undefined;
  throw invalidInput('dropped_id: it is none that a listing of the trash has');
}

const UndropBody = Type.Object({
  dropped_id: droppedId,
  new_table_name: Type.Optional(Type.String()),
  new_namespace_id: Type.Optional(Type.Array(Type.String())),
});

/** Needs the right on both names, as a rename does. */
export const undropTableRoute = onceRoute('undrop_table', undropTable, {
  path: '/v1/table/:id/undrop',
  target: tableTarget,
  action: 'UndropTable',
  summary: 'Brings a dropped table back from the trash',
  answers: Type.Object({ id: Type.Array(Type.String()), location: Type.String(), properties: StringMap }),
  body: UndropBody,
  answer: async (operation, { target: table, body }, { access, context, database }) => {
    const namespace = body.new_namespace_id ?? database.shownNamespace(table.namespace);
    const to = database.table(parseTableParts(namespace, body.new_table_name ?? table.name));
    context.note({ newTable: resourceUid({ kind: 'table', table: to }).id });
    access.require('UndropTable', { kind: 'table', table: to });
    const undropped = await operation({ table, id: readDroppedId(body.dropped_id), to });
    return { id: tableTarget.parts(to, database), location: undropped.location, properties: undropped.properties };
  },
});
