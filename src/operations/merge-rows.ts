import Type from 'typebox';
import { arrowAnswer, arrowRoute } from '../endpoint/arrow-route.ts';
import { boundedFields, notedBounds } from '../endpoint/json-route.ts';
import { headerTexts } from '../endpoint/route.ts';
import type { MergeFlags } from '../merge/merge-command.ts';
import { mergeRows } from '../merge/request.ts';
import { readRules } from '../merge/row-rules.ts';
import { boundParameters } from '../wire/bound-parameters.ts';
import { Count } from '../wire/json-body.ts';
import { mergeParameters, readMergeParameters } from '../wire/merge-parameters.ts';
import { toldFields, toldShown } from './told-of-rules.ts';

const Merged = arrowAnswer({
  ...boundedFields,
  num_updated_rows: Count,
  num_inserted_rows: Count,
  num_deleted_rows: Count,
  num_attempts: Count,
  num_rows: Count,
  num_duplicate_rows: Type.Optional(Count),
  num_stale_rows: Type.Optional(Count),
  ...toldFields,
});

export const mergeRowsRoute = arrowRoute(mergeRows, {
  path: '/v1/table/:id/merge_insert',
  action: 'MergeInsertIntoTable',
  summary: 'Upserts rows: updates, inserts and deletes by key columns',
  query: { ...mergeParameters, ...boundParameters },
  answers: Merged,
  body: 'arrow-whole',
  takesParts: true,
  parameters({ query, readFilter, headers, context }) {
    const parameters = readMergeParameters(query, readFilter, headerTexts(headers));
    readRules(parameters.rules, parameters.flags);
    const bounds = notedBounds({ query, headers, context });
    return { ...parameters, ...(bounds && { bounds }) };
  },
  furtherActions: ({ flags, rules }) => [
    ...(flags.whenNotMatchedBySourceDelete === false ? [] : (['DeleteFromTableBySource'] as const)),
    ...(rules.tombstone ? (['DeleteFromTable'] as const) : []),
  ],
  mode: ({ flags }) => mergeMode(flags),
  async answer(operation, { table, branch, parameters, source, idempotency, scope, requireAction }) {
    const command = { table, branch, ...parameters, source, idempotency, requireAction };
    const { isReplay, ...result } = await operation(command, scope);
    const fields = {
      version: result.version,
      num_updated_rows: result.numUpdatedRows,
      num_inserted_rows: result.numInsertedRows,
      num_deleted_rows: result.numDeletedRows,
      num_attempts: result.numAttempts,
      num_rows: result.numUpdatedRows + result.numInsertedRows,
      ...(result.numDuplicateRows !== undefined && { num_duplicate_rows: result.numDuplicateRows }),
      ...(result.numStaleRows !== undefined && { num_stale_rows: result.numStaleRows }),
      ...toldShown(result),
      ...(result.isDryRun ? { dry_run: true } : { transaction_id: result.transactionId }),
    };
    if (result.isDryRun) return { fields, isReplay, audit: {} };
    const audit = {
      version: result.version,
      insertedRows: result.numInsertedRows,
      updatedRows: result.numUpdatedRows,
      deletedRows: result.numDeletedRows,
      duplicateRows: result.numDuplicateRows,
      staleRows: result.numStaleRows,
      invalidRows: result.numInvalidRows,
      transactionId: result.transactionId,
    };
    return { fields, isReplay, audit };
  },
});

/** Names no filter's text, in which a client may have written values of rows. */
function mergeMode(flags: MergeFlags): string {
  const parts = {
    update: flags.whenMatchedUpdateAll,
    insert: flags.whenNotMatchedInsertAll,
    delete_by_source: flags.whenNotMatchedBySourceDelete,
  };
  const named = Object.entries(parts).filter(([, flag]) => flag !== false);
  return named.map(([name, flag]) => (flag === true ? name : `${name}_filtered`)).join('+');
}
