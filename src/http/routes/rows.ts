/** The routes that change rows by a predicate. */
import Type from 'typebox';
import { invalidInput } from '../../kernel/errors.ts';
import { deleteRows } from '../../operations/rows/delete-rows.ts';
import { updateRows } from '../../operations/rows/update-rows.ts';
import { Count } from '../../wire/json-body.ts';
import { jsonRoute, writeAnswer, writtenFields } from '../json-route.ts';
import { tableTarget } from '../route.ts';

const DeleteBody = Type.Object({ predicate: Type.String() });

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

/** An update of more columns than tables have is a mistake. */
const mostUpdates = 10_000;

const UpdateBody = Type.Object({
  predicate: Type.Optional(Type.String()),
  updates: Type.Array(Type.Tuple([Type.String(), Type.String()]), { maxItems: mostUpdates }),
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
    if (body.updates.length === 0) throw invalidInput('updates: give at least one column and its new value');
    const predicate = body.predicate === undefined ? undefined : input.readFilter(body.predicate, 'predicate');
    const updates = body.updates.map(([column, value], index) => ({
      column,
      value: input.readFilter(value, `updates[${index}][1]`),
    }));
    const result = await operation({ table, branch, predicate, updates, idempotency }, input.scope);
    const rows = { [input.hasTrailingSlash ? 'rows_updated' : 'updated_rows']: result.numUpdatedRows };
    return writeAnswer(input, result, rows);
  },
});
