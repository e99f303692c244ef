import Type from 'typebox';
import type { StepWithFile } from '../../change/change-request.ts';
import { type ChangeCommand, changeOperation } from '../../change/submit-change.ts';
import { writeRoute } from '../../endpoint/json-route.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { writeBounds } from '../../kernel/write-bounds.ts';
import { Count } from '../../wire/json-body.ts';

interface DeleteRowsCommand extends ChangeCommand {
  readonly predicate: CheckedSql;
}

/** Deletes the rows of which the predicate is true. Where there is none, no version is made. */
const deleteRows = changeOperation('delete', async (command: DeleteRowsCommand, table, { access }) => {
  const { metadata } = await access.read(table, command.branch, undefined, (dataset) => dataset.schema());
  const bounds = writeBounds(command.bounds, { properties: table.properties, metadata });
  return { steps: [deletion(command.predicate)], bounds };
});

export const deletion = (where: CheckedSql): StepWithFile => ({ step: { kind: 'delete', where } });

export const DeleteBody = Type.Object({ predicate: Type.String() });

export const deleteRowsRoute = writeRoute(deleteRows, {
  path: '/v1/table/:id/delete',
  action: 'DeleteFromTable',
  summary: 'Deletes the rows that a condition holds for',
  body: DeleteBody,
  isBounded: true,
  command: ({ predicate }, on, { readFilter }) => ({ ...on, predicate: readFilter(predicate, 'predicate') }),
  answers: { num_deleted_rows: Count },
  fields: ({ numDeletedRows }) => ({ num_deleted_rows: numDeletedRows }),
});
