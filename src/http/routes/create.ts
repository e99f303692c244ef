import { createTable } from '../../create/request.ts';
import { readCreateParameters } from '../../wire/create-parameters.ts';
import { arrowRoute } from '../arrow-route.ts';
import { refuseBranch } from '../route.ts';

export const createTablePath = '/v1/table/:id/create';

export const createTableRoute = arrowRoute(createTable, {
  path: createTablePath,
  action: 'CreateTable',
  body: 'arrow-chunks',
  parameters: ({ query }, branch) => {
    refuseBranch(branch);
    return readCreateParameters(query);
  },
  furtherActions: ({ mode }) => (mode === 'overwrite' ? ['OverwriteTable'] : []),
  mode: ({ mode }) => mode,
  async answer(operation, { table, parameters, source, idempotency, scope }) {
    const command = { table, ...parameters, source, idempotency };
    const { isReplay, ...result } = await operation(command, scope);
    const fields = {
      location: result.location,
      version: result.version,
      storage_options: result.storageOptions,
      properties: result.properties,
      ...(result.transactionId === undefined ? {} : { transaction_id: result.transactionId }),
    };
    const audit = {
      version: result.version,
      insertedRows: result.numInsertedRows,
      transactionId: result.transactionId,
    };
    return { fields, isReplay, audit };
  },
});
