import Type from 'typebox';
import type { StepWithFile } from '../../change/change-request.ts';
import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import { jsonRoute, writeAnswer, writtenFields } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { Count } from '../../wire/json-body.ts';

interface DeleteRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly predicate: CheckedSql;
  readonly idempotency: IdempotencyHeader | undefined;
}

/** Deletes the rows of which the predicate is true. Where there is none, no version is made. */
const deleteRows =
  ({ idempotency, ...deps }: ChangeDeps & { readonly idempotency: Idempotency }) =>
  (command: DeleteRowsCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('delete', command, scope, async (keyed) => {
      const { branch, predicate: where } = command;
      const table = await deps.access.findCreated(command.table);
      return submitChange(deps, { operation: 'delete', table, branch, steps: [deletion(where)] }, scope, keyed);
    });

export const deletion = (where: CheckedSql): StepWithFile => ({ step: { kind: 'delete', where }, file: undefined });

export const DeleteBody = Type.Object({ predicate: Type.String() });

export const deleteRowsRoute = jsonRoute(deleteRows, {
  methods: ['POST'],
  path: '/v1/table/:id/delete',
  target: tableTarget,
  action: 'DeleteFromTable',
  summary: 'Deletes the rows that a condition holds for',
  answers: Type.Object({ num_deleted_rows: Count, ...writtenFields }),
  body: DeleteBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const predicate = input.readFilter(body.predicate, 'predicate');
    const result = await operation({ table, branch, predicate, idempotency }, input.scope);
    return writeAnswer(input, result, { num_deleted_rows: result.numDeletedRows });
  },
});
