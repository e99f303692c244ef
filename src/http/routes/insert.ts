import { insertRows } from '../../insert/request.ts';
import { insertParameters, readInsertParameters } from '../../wire/insert-parameters.ts';
import { Count } from '../../wire/json-body.ts';
import { arrowAnswer, arrowRoute } from '../arrow-route.ts';
import { writtenFields } from '../json-route.ts';

export const insertRowsRoute = arrowRoute(insertRows, {
  path: '/v1/table/:id/insert',
  action: 'InsertIntoTable',
  summary: 'Adds rows, or replaces all by them',
  query: insertParameters,
  answers: arrowAnswer({ num_inserted_rows: Count, ...writtenFields }),
  body: 'arrow-chunks',
  parameters: ({ query }) => readInsertParameters(query),
  furtherActions: ({ mode }) => (mode === 'overwrite' ? ['OverwriteTable'] : []),
  mode: ({ mode }) => mode,
  async answer(operation, { table, branch, parameters, source, idempotency, scope }) {
    const command = { table, branch, ...parameters, source, idempotency };
    const { isReplay, transactionId, version, numInsertedRows } = await operation(command, scope);
    const fields = { version, num_inserted_rows: numInsertedRows, transaction_id: transactionId };
    return { fields, isReplay, audit: { version, insertedRows: numInsertedRows, transactionId } };
  },
});
