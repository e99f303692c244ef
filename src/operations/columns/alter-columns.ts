import { type FieldPath, formatFieldPath, sameFieldPath } from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import { checkColumnNames, checkNames } from '../../arrow/schema/schema-rules.ts';
import { invalidInput } from '../../kernel/errors.ts';
import {
  type CheckedColumnStep,
  type ColumnCommand,
  columnChange,
  mapFields,
  requireColumn,
  requireOnce,
} from './change-columns.ts';

/** Says at least one thing of what is to change. */
export interface Alteration {
  readonly path: FieldPath;
  readonly rename: string | undefined;
  readonly isNullable: boolean | undefined;
  /** As JSON in Lance's dialect. */
  readonly dataType: string | undefined;
}

interface AlterColumnsCommand extends ColumnCommand {
  /** At least one. */
  readonly alterations: readonly Alteration[];
}

/** Renames columns, changes their types, or whether they allow NULL. */
export const alterColumns = columnChange('alter_columns', ({ alterations }: AlterColumnsCommand) =>
  alterationOf(alterations),
);

export function alterationOf(alterations: readonly Alteration[]): CheckedColumnStep {
  const changes = alterations.map(({ path, ...rest }) => ({ path: formatFieldPath(path), ...rest }));
  return {
    step: { step: { kind: 'alter columns', alterations: changes }, file: undefined },
    check: (schema) => requireAlterable(schema, alterations),
  };
}

function requireAlterable(schema: Schema, alterations: readonly Alteration[]): void {
  for (const { path } of alterations) requireColumn(schema, path, 'alterations');
  requireOnce(
    alterations.map(({ path }) => path),
    'alterations',
  );
  if (
    alterations.some(({ dataType }) => dataType !== undefined) &&
    alterations.some(({ isNullable }) => isNullable === false)
  )
    throw invalidInput('alterations: the engine does not change types and forbid NULL at once; change the types first');
  const renamed = alterations.filter(({ rename }) => rename !== undefined);
  if (renamed.length === 0) return;
  const ofTable = renamed.filter(({ path }) => path.segments.length === 1);
  if (ofTable.length > 0) checkColumnNames(ofTable.flatMap(({ rename }) => rename ?? []));
  const nameOf = (at: FieldPath): string | undefined => renamed.find(({ path }) => sameFieldPath(path, at))?.rename;
  const fields = mapFields(schema.fields, (field, path) => ({ ...field, name: nameOf(path) ?? field.name }));
  checkNames({ ...schema, fields });
}
