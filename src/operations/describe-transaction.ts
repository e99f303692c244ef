import type { Catalog } from '../catalog/port.ts';
import { LancegateError } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import type { Operations } from './commands.ts';

/** What became of a create or merge whose answer got lost (P6). Only committed transactions are recorded. */
export const describeTransaction =
  (catalog: Catalog): Operations['describeTransaction'] =>
  async ({ id, visible }) => {
    const record = await catalog.findTransaction(id);
    if (record === undefined || !visible({ table: record.ref, branch: record.branch })) {
      throw new LancegateError('TransactionNotFound', `transaction '${id}' is not known`);
    }
    const { operation, ref, branch, version, committedAtMs, outcome } = record;
    const properties = {
      ...outcome,
      operation,
      table: showTable(ref),
      branch: branch ?? 'main',
      version: String(version),
      committed_at_ms: String(committedAtMs),
    };
    return { id, status: 'SUCCEEDED', properties };
  };
