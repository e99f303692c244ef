import Type from 'typebox';
import { insertRows } from '../../insert/request.ts';
import { insertParameters, readInsertParameters } from '../../wire/insert-parameters.ts';
import { Count, Version } from '../../wire/json-body.ts';
import { arrowAnswer, arrowRoute } from '../arrow-route.ts';

const Inserted = arrowAnswer({ version: Version, num_inserted_rows: Count, transaction_id: Type.String() });

export const insertRowsRoute = arrowRoute(insertRows, {
  path: '/v1/table/:id/insert',
  action: 'InsertIntoTable',
  summary: 'Adds the rows of an Arrow stream, or replaces rows and columns of the table by them',
  query: insertParameters,
  answers: Inserted,
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
