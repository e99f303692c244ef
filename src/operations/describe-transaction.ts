import Type from 'typebox';
import type { TransactionCatalog } from '../catalog/port.ts';
import { jsonRoute, Nothing } from '../endpoint/json-route.ts';
import { transactionTarget } from '../endpoint/route.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, type Properties, showTable, type TableRef, type TransactionId } from '../kernel/ids.ts';
import { StringMap } from '../wire/json-body.ts';
import type { Visible } from './visible-page.ts';

interface DescribeTransactionCommand {
  readonly id: TransactionId;
  readonly show: (table: TableRef) => string;
  readonly visible: Visible<{ readonly table: TableRef; readonly branch: BranchName | undefined }>;
}

interface TransactionDescription {
  readonly id: TransactionId;
  readonly status: 'SUCCEEDED';
  readonly properties: Properties;
}

/**
 * What became of a create or merge whose answer got lost (P6). Only committed transactions are recorded.
 * `TransactionNotFound`, also for one that is not visible.
 */
const describeTransaction =
  ({ catalog }: { catalog: TransactionCatalog }) =>
  async ({ id, visible, show }: DescribeTransactionCommand): Promise<TransactionDescription> => {
    const record = await catalog.findTransaction(id);
    if (record === undefined || !visible({ table: record.ref, branch: record.branch })) {
      throw new LancegateError('TransactionNotFound', `transaction '${id}' is not known`);
    }
    const { operation, ref, branch, version, committedAtMs, outcome } = record;
    const properties = {
      ...outcome,
      operation,
      table: show(ref),
      branch: branch ?? 'main',
      version: String(version),
      committed_at_ms: String(committedAtMs),
    };
    return { id, status: 'SUCCEEDED', properties };
  };

const Transaction = Type.Object({ status: Type.String(), properties: StringMap });

/** Which table a transaction belongs to only its record says: the policy is asked from inside the operation. */
export const describeTransactionRoute = jsonRoute(describeTransaction, {
  path: '/v1/transaction/:id/describe',
  target: transactionTarget,
  action: 'DescribeTransaction',
  summary: 'Says what became of a transaction',
  answers: Transaction,
  body: Nothing,
  answer: async (operation, { target: id }, { access, database }) => {
    const { status, properties } = await operation({
      id,
      visible: ({ table, branch }) =>
        database.holds(table) && access.needs('DescribeTransaction', { kind: 'table', table }, branch),
      show: (table) => showTable(database.shown(table)),
    });
    return { status, properties };
  },
});
