import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';

interface RestoreTableCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly version: number;
  readonly idempotency: IdempotencyHeader | undefined;
}

/**
 * Makes a new version of all that an older one of the branch has: rows, columns, indexes and settings. The newest can be restored
 * too, which makes a version as well, as the engine does. `TableVersionNotFound`.
 */
export const restoreTable =
  ({ idempotency, ...deps }: ChangeDeps & { readonly idempotency: Idempotency }) =>
  (command: RestoreTableCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('restore', command, scope, async (keyed) => {
      const { branch, version } = command;
      const table = await deps.access.findCreated(command.table);
      const manifest = { kind: 'restore', version } as const;
      return submitChange(deps, { operation: 'restore', table, branch, manifest }, scope, keyed);
    });
