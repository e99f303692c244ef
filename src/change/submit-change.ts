import type { TableRecord, WriteOperation } from '../catalog/port.ts';
import type { Keyed } from '../idempotency/idempotency.ts';
import { type NewId, newTransactionId } from '../kernel/clock.ts';
import type { BranchName, TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableWriter } from '../write/table-writer.ts';
import type { SchemaFit, WriteCounts } from '../write/write.ts';
import type { ChangeOfBranch, ChangeRequest } from './change-request.ts';

export interface ChangeDeps {
  readonly access: TableAccess;
  readonly writer: TableWriter;
  readonly newId: NewId;
}

/** A change of a table branch that was checked against the table. */
type Change = ChangeOfBranch & {
  readonly operation: WriteOperation;
  readonly table: TableRecord;
  readonly branch: BranchName | undefined;
  readonly fit?: SchemaFit;
};

export interface ChangeResult extends WriteCounts {
  readonly transactionId: TransactionId;
}

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
  return access.onFilesOf(change.table, async () => ({ transactionId, ...(await writer.write(request)) }));
}
