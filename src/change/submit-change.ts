import type { TableRecord, WriteOperation } from '../catalog/port.ts';
import type { Idempotency, IdempotencyHeader, Keyed, Replayable } from '../idempotency/idempotency.ts';
import { type NewId, newTransactionId } from '../kernel/clock.ts';
import type { BranchName, TableRef, TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { AskedBounds, WriteBounds } from '../kernel/write-bounds.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableWriter } from '../write/table-writer.ts';
import type { SchemaFit, WriteCounts } from '../write/write.ts';
import type { ChangeOfBranch, ChangeRequest } from './change-request.ts';

export interface ChangeDeps {
  readonly access: TableAccess;
  readonly writer: TableWriter;
  readonly newId: NewId;
  readonly idempotency: Idempotency;
}

/** A change that was checked against the table. */
type CheckedChange = ChangeOfBranch & { readonly fit?: SchemaFit; readonly bounds?: WriteBounds | undefined };

type Change = CheckedChange & {
  readonly operation: WriteOperation;
  readonly table: TableRecord;
  readonly branch: BranchName | undefined;
};

export interface ChangeResult extends WriteCounts {
  readonly transactionId: TransactionId;
  /** Nothing was written; the counts are those at `version`. */
  readonly isDryRun?: true;
}

/** Every command to change a table branch has these, beside what it is to change. */
export interface ChangeCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly idempotency: IdempotencyHeader | undefined;
  /** Only some operations heed it, whose routes alone read it. */
  readonly bounds?: AskedBounds | undefined;
}

/** Makes an operation that is one change of a table branch, and answers each key once. `changeOf` checks it against the table. */
export const changeOperation =
  <Command extends ChangeCommand, Deps = unknown>(
    operation: WriteOperation,
    changeOf: (
      command: Command,
      table: TableRecord,
      deps: ChangeDeps & Deps,
      scope: RequestScope,
    ) => Promise<CheckedChange>,
  ) =>
  (deps: ChangeDeps & Deps) =>
  (command: Command, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    deps.idempotency.once(operation, command, scope, async (keyed) => {
      const { branch } = command;
      const table = await deps.access.findCreated(command.table);
      const change = await changeOf(command, table, deps, scope);
      return submitChange(deps, { operation, table, branch, ...change }, scope, keyed);
    });

/** Resolves when the change is committed, durable and recorded, with the answer of a `keyed` request. */
export async function submitChange(
  { access, writer, newId }: ChangeDeps,
  change: Change,
  scope: RequestScope,
  keyed: Keyed | undefined,
): Promise<ChangeResult> {
  const transactionId = newTransactionId(newId);
  const request: ChangeRequest = {
    kind: 'change',
    ...change,
    scope,
    transactionId,
    keyed: await keyed?.request(),
  };
  return access.onFilesOf(change.table, async () => ({
    transactionId,
    ...(await writer.write(request)),
    ...(change.bounds?.isDryRun === true && { isDryRun: true }),
  }));
}
