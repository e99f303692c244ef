import { type FieldPath, formatFieldPath, sameFieldPath } from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { ChangeResult } from '../../change/submit-change.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Replayable } from '../idempotency/idempotency.ts';
import {
  type CheckedColumnStep,
  type ColumnCommand,
  type ColumnDeps,
  changeColumns,
  mapFields,
  requireColumn,
  requireOnce,
} from './change-columns.ts';

interface DropColumnsCommand extends ColumnCommand {
  /** At least one. */
  readonly columns: readonly FieldPath[];
}

/** Removes columns, or parts of them, and the indexes that are on them. */
export const dropColumns =
  ({ idempotency, ...deps }: ColumnDeps) =>
  (command: DropColumnsCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('drop_columns', command, scope, (keyed) =>
      changeColumns(deps, command, { operation: 'drop_columns', ...removalOf(command.columns) }, scope, keyed),
    );

export const removalOf = (columns: readonly FieldPath[]): CheckedColumnStep => ({
  step: { step: { kind: 'drop columns', columns: columns.map(formatFieldPath) }, file: undefined },
  check: (schema) => requireDroppable(schema, columns),
});

function requireDroppable(schema: Schema, columns: readonly FieldPath[]): void {
  for (const path of columns) requireColumn(schema, path, 'columns');
  requireOnce(columns, 'columns');
  const left = mapFields(schema.fields, (field, at) =>
    columns.some((path) => sameFieldPath(path, at)) ? undefined : field,
  );
  if (left.length === 0) throw invalidInput('columns: a table keeps at least one column');
}
