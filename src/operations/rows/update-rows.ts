import { formatFieldPath, parseFieldPath, resolveField } from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { TableRecord } from '../../catalog/port.ts';
import { type ChangeDeps, type ChangeResult, submitChange } from '../../change/submit-change.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { Idempotency, IdempotencyHeader, Replayable } from '../idempotency/idempotency.ts';
import { roundsOf } from './update-rounds.ts';

/** The new value of a column: an expression over the columns of the old row. */
export interface ColumnUpdate {
  /** As the client wrote it. */
  readonly column: string;
  readonly value: CheckedSql;
}

interface UpdateRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  /** undefined for all rows. */
  readonly predicate: CheckedSql | undefined;
  /** At least one. */
  readonly updates: readonly ColumnUpdate[];
  readonly idempotency: IdempotencyHeader | undefined;
}

/** Updates the rows of which the predicate is true. Where there is none, no version is made. */
export const updateRows =
  ({ idempotency, ...deps }: ChangeDeps & { readonly idempotency: Idempotency }) =>
  (command: UpdateRowsCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('update', command, scope, async (keyed) => {
      const { branch, predicate: where } = command;
      const table = await deps.access.findCreated(command.table);
      const [set = [], ...then] = roundsOf(await columnsOfTable(deps.access, table, command));
      const steps = [
        { step: { kind: 'update', where, set, ...(then.length > 0 && { then }) }, file: undefined },
      ] as const;
      return submitChange(deps, { operation: 'update', table, branch, steps }, scope, keyed);
    });

async function columnsOfTable(access: TableAccess, table: TableRecord, { branch, updates }: UpdateRowsCommand) {
  const schema = await access.read(table, branch, undefined, (dataset) => dataset.schema());
  const set = updates.map(({ column, value }) => ({ column: columnOf(schema, column), value }));
  const twice = set.find(({ column }, index) => set.findIndex((other) => other.column === column) < index);
  if (twice !== undefined) throw invalidInput(`updates: column ${twice.column} is given twice`);
  return set;
}

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
