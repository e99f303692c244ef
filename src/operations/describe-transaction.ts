import type { TransactionCatalog } from '../catalog/port.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { BranchName, Properties, TableRef, TransactionId } from '../kernel/ids.ts';
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
export const describeTransaction =
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
