/** The routes that change rows by a predicate. */
import Type from 'typebox';
import { deleteRows } from '../../operations/rows/delete-rows.ts';
import { updateRows } from '../../operations/rows/update-rows.ts';
import { Count } from '../../wire/json-body.ts';
import { DeleteBody, readUpdate, UpdateBody } from '../../wire/rows-body.ts';
import { jsonRoute, writeAnswer, writtenFields } from '../json-route.ts';
import { tableTarget } from '../route.ts';

export const deleteRowsRoute = jsonRoute(deleteRows, {
  methods: ['POST'],
  path: '/v1/table/:id/delete',
  target: tableTarget,
  action: 'DeleteFromTable',
  summary: 'Deletes the rows that a condition holds for',
  answers: Type.Object({ num_deleted_rows: Count, ...writtenFields }),
  body: DeleteBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const predicate = input.readFilter(body.predicate, 'predicate');
    const result = await operation({ table, branch, predicate, idempotency }, input.scope);
    return writeAnswer(input, result, { num_deleted_rows: result.numDeletedRows });
  },
});

/** With `rows_updated` in place of `updated_rows` where the path ends in a slash. */
const UpdatedRows = Type.Object({ updated_rows: Count, ...writtenFields });

/** The Python and Node SDKs would take a count under both names for two of one field, and fail after the commit. */
export const updateRowsRoute = jsonRoute(updateRows, {
  methods: ['POST'],
  path: '/v1/table/:id/update',
  target: tableTarget,
  action: 'UpdateTable',
  summary: 'Updates the rows that a condition holds for',
  answers: UpdatedRows,
  body: UpdateBody,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const update = readUpdate(body, input.readFilter);
    const result = await operation({ table, branch, ...update, idempotency }, input.scope);
    const rows = { [input.hasTrailingSlash ? 'rows_updated' : 'updated_rows']: result.numUpdatedRows };
    return writeAnswer(input, result, rows);
  },
});
