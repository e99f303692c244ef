import { formatFieldPath, parseFieldPath, resolveField } from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { FiledStep } from '../../change/change-request.ts';
import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../../idempotency/idempotency.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import { readsRow, roundsOf } from './update-rounds.ts';

/** The new value of a column: an expression over the columns of the old row. */
interface ColumnUpdate {
  /** As the client wrote it. */
  readonly column: string;
  readonly value: CheckedSql;
}

export interface RowsUpdate {
  /** undefined for all rows. */
  readonly predicate: CheckedSql | undefined;
  /** At least one. */
  readonly updates: readonly ColumnUpdate[];
}

interface UpdateRowsCommand extends RowsUpdate {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly idempotency: IdempotencyHeader | undefined;
}

/** Updates the rows of which the predicate is true. Where there is none, no version is made. */
export const updateRows =
  ({ idempotency, ...deps }: ChangeDeps & { readonly idempotency: Idempotency }) =>
  (command: UpdateRowsCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('update', command, scope, async (keyed) => {
      const { branch } = command;
      const table = await deps.access.findCreated(command.table);
      const schema = await deps.access.read(table, branch, undefined, (dataset) => dataset.schema());
      const steps = [updateOf(command, schema)];
      return submitChange(deps, { operation: 'update', table, branch, steps }, scope, keyed);
    });

/** Of a table with these columns. */
export function updateOf({ predicate: where, updates }: RowsUpdate, schema: Schema): FiledStep {
  const columns = schema.fields.map(({ name }) => name);
  const set = updates.map(({ column: text, value }) => {
    const column = columnOf(schema, text);
    return { column, value: computed(value), isConstant: !readsRow(value, columns) };
  });
  const twice = set.find(({ column }, index) => set.findIndex((other) => other.column === column) < index);
  if (twice !== undefined) throw invalidInput(`updates: column ${twice.column} is given twice`);
  const [first = [], ...laterRounds] = roundsOf(set);
  const step = { kind: 'update', where, set: first, ...(laterRounds.length > 0 && { laterRounds }) } as const;
  return { step, file: undefined };
}

/**
 * Of a list that is written out the engine makes NULL where its length or an element does not fit a fixed-size list; where it is
 * computed the engine refuses that.
 */
const computed = (value: CheckedSql): CheckedSql =>
  /^[(\s]*\[/.test(value) ? ownSql(`coalesce(${value}, NULL)`) : value;

/** The engine updates whole columns only. */
function columnOf(schema: Schema, text: string): string {
  const isName = schema.fields.some(({ name }) => name === text);
  const path = isName ? { segments: [text] } : parseFieldPath(text, 'updates');
  const [column = ''] = path.segments;
  const shown = formatFieldPath(path);
  if (resolveField(schema, path) === undefined) {
    throw new LancegateError('TableColumnNotFound', `updates: the table has no column ${shown}`);
  }
  if (path.segments.length > 1)
    throw invalidInput(`updates: ${shown} is a part of a column; update ${column} as a whole`);
  return column;
}
