import Type from 'typebox';
import { createTable } from '../../create/request.ts';
import { createParameters, readCreateParameters } from '../../wire/create-parameters.ts';
import { StringMap, Version } from '../../wire/json-body.ts';
import { arrowAnswer, arrowRoute } from '../arrow-route.ts';
import { refuseBranch } from '../route.ts';

export const createTablePath = '/v1/table/:id/create';

const CreatedTable = arrowAnswer({
  location: Type.String(),
  version: Version,
  storage_options: StringMap,
  properties: StringMap,
  transaction_id: Type.Optional(Type.String()),
});

export const createTableRoute = arrowRoute(createTable, {
  path: createTablePath,
  action: 'CreateTable',
  summary: 'Creates a table of rows',
  query: createParameters,
  answers: CreatedTable,
  body: 'arrow-chunks',
  makesTable: true,
  parameters: ({ query }, branch) => {
    refuseBranch(branch);
    return readCreateParameters(query);
  },
  furtherActions: ({ mode }) => (mode === 'overwrite' ? ['OverwriteTable'] : []),
  mode: ({ mode }) => mode,
  async answer(operation, { table, parameters, source, idempotency, scope, access }) {
    const requireDescribe = () => access.require('DescribeTable', { kind: 'table', table });
    const command = { table, ...parameters, requireDescribe, source, idempotency };
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
