import { arrowAnswer, arrowRoute } from '../endpoint/arrow-route.ts';
import { writtenFields } from '../endpoint/json-route.ts';
import type { RouteInput } from '../endpoint/route.ts';
import type { InsertMode } from '../insert/insert-kind.ts';
import { insertRows } from '../insert/request.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { RuleTexts } from '../table/standing-rules.ts';
import { choiceOf, parseChoice } from '../wire/choices.ts';
import { Count } from '../wire/json-body.ts';
import { invalidParameters } from '../wire/merge-parameters.ts';
import { type QueryOf, Refused } from '../wire/query-parameters.ts';
import { readSourceRules, toldFields, toldShown } from './told-of-rules.ts';

const insertModes = ['append', 'overwrite'] as const;

const insertParameters = { mode: choiceOf(insertModes), ...invalidParameters, upload_id: Refused };

/** A part of an upload that other requests continue is refused: its rows would be taken for all of them. */
function readInsertParameters(
  query: QueryOf<keyof typeof insertParameters>,
  headers: RouteInput['headers'],
): { readonly mode: InsertMode; readonly rules: RuleTexts } {
  if (query.has('upload_id')) throw new LancegateError('Unsupported', 'this service takes an insert in one request');
  const rules = readSourceRules(query, headers);
  return { mode: query.one('mode', (text) => parseChoice(text, 'mode', insertModes)) ?? 'append', rules };
}

export const insertRowsRoute = arrowRoute(insertRows, {
  path: '/v1/table/:id/insert',
  action: 'InsertIntoTable',
  summary: 'Adds rows, or replaces all by them',
  query: insertParameters,
  answers: arrowAnswer({ num_inserted_rows: Count, ...toldFields, ...writtenFields }),
  body: 'arrow-chunks',
  parameters: ({ query, headers }) => readInsertParameters(query, headers),
  furtherActions: ({ mode }) => (mode === 'overwrite' ? ['OverwriteTable'] : []),
  mode: ({ mode }) => mode,
  async answer(operation, { table, branch, parameters, source, idempotency, scope, requireAction }) {
    const command = { table, branch, ...parameters, source, idempotency, requireAction };
    const { isReplay, ...result } = await operation(command, scope);
    const { transactionId, version, numInsertedRows, numInvalidRows } = result;
    const told = toldShown(result);
    const fields = { version, num_inserted_rows: numInsertedRows, ...told, transaction_id: transactionId };
    const audit = { version, insertedRows: numInsertedRows, invalidRows: numInvalidRows, transactionId };
    return { fields, isReplay, audit };
  },
});
