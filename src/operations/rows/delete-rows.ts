import type { FiledStep } from '../../change/change-request.ts';
import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';

interface DeleteRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly predicate: CheckedSql;
  readonly idempotency: IdempotencyHeader | undefined;
}

/** Deletes the rows of which the predicate is true. Where there is none, no version is made. */
export const deleteRows =
  ({ idempotency, ...deps }: ChangeDeps & { readonly idempotency: Idempotency }) =>
  (command: DeleteRowsCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('delete', command, scope, async (keyed) => {
      const { branch, predicate: where } = command;
      const table = await deps.access.findCreated(command.table);
      return submitChange(deps, { operation: 'delete', table, branch, steps: [deletion(where)] }, scope, keyed);
    });

export const deletion = (where: CheckedSql): FiledStep => ({ step: { kind: 'delete', where }, file: undefined });
