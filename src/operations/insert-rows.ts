import { arrowAnswer, arrowRoute } from '../endpoint/arrow-route.ts';
import { writtenFields } from '../endpoint/json-route.ts';
import type { InsertMode } from '../insert/insert-kind.ts';
import { insertRows } from '../insert/request.ts';
import { LancegateError } from '../kernel/errors.ts';
import { choiceOf, parseChoice } from '../wire/choices.ts';
import { Count } from '../wire/json-body.ts';
import { type QueryOf, Refused } from '../wire/query-parameters.ts';

const insertModes = ['append', 'overwrite'] as const;

const insertParameters = { mode: choiceOf(insertModes), upload_id: Refused };

/** A part of an upload that other requests continue is refused: its rows would be taken for all of them. */
function readInsertParameters(query: QueryOf<keyof typeof insertParameters>): { readonly mode: InsertMode } {
  if (query.has('upload_id')) throw new LancegateError('Unsupported', 'this service takes an insert in one request');
  return { mode: query.one('mode', (text) => parseChoice(text, 'mode', insertModes)) ?? 'append' };
}

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
