import { type FieldPath, formatFieldPath, sameFieldPath } from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import { invalidInput } from '../../kernel/errors.ts';
import {
  type CheckedColumnStep,
  type ColumnCommand,
  columnChange,
  mapFields,
  requireColumn,
  requireOnce,
} from './change-columns.ts';

interface DropColumnsCommand extends ColumnCommand {
  /** At least one. */
  readonly columns: readonly FieldPath[];
}

/** Removes columns, or parts of them, and the indexes that are on them. */
export const dropColumns = columnChange('drop_columns', ({ columns }: DropColumnsCommand) => removalOf(columns));

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
