import Type, { type Static } from 'typebox';
import {
  type FieldPath,
  formatFieldPath,
  parseFieldPath,
  requireOnce,
  sameFieldPath,
} from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import type { ChangeCommand } from '../../change/submit-change.ts';
import { writeRoute } from '../../endpoint/json-route.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { type CheckedColumnStep, columnChange, listOf, mapFields, requireColumn } from './change-columns.ts';

interface DropColumnsCommand extends ChangeCommand {
  /** There is at least one. */
  readonly columns: readonly FieldPath[];
}

/** Removes columns, or parts of them, and the indexes that are on them. */
const dropColumns = columnChange('drop_columns', ({ columns }: DropColumnsCommand) => removalOf(columns));

export const removalOf = (columns: readonly FieldPath[]): CheckedColumnStep => ({
  step: { kind: 'drop columns', columns: columns.map(formatFieldPath) },
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

export const DropColumnsBody = Type.Object({ columns: listOf(Type.String()) });

export const readColumnPaths = ({ columns }: Static<typeof DropColumnsBody>): readonly FieldPath[] =>
  columns.map((text, index) => parseFieldPath(text, `columns[${index}]`));

export const dropColumnsRoute = writeRoute(dropColumns, {
  path: '/v1/table/:id/drop_columns',
  action: 'AlterTableDropColumns',
  summary: 'Drops columns',
  body: DropColumnsBody,
  command: (body, on) => ({ ...on, columns: readColumnPaths(body) }),
});
