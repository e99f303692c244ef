import Type, { type Static } from 'typebox';
import {
  type FieldPath,
  formatFieldPath,
  parseFieldPath,
  requireOnce,
  sameFieldPath,
} from '../../arrow/schema/field-path.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import { checkColumnNames, checkNames } from '../../arrow/schema/schema-rules.ts';
import type { ChangeCommand } from '../../change/submit-change.ts';
import { writeRoute } from '../../endpoint/json-route.ts';
import { invalidInput } from '../../kernel/errors.ts';
import {
  type CheckedColumnStep,
  columnChange,
  isGiven,
  listOf,
  mapFields,
  notComputed,
  OrNull,
  requireColumn,
} from './change-columns.ts';
import { readDataType } from './read-data-type.ts';

/** Says at least one thing of what is to change. */
export interface Alteration {
  readonly path: FieldPath;
  readonly rename: string | undefined;
  readonly isNullable: boolean | undefined;
  /** It is JSON in Lance's dialect. */
  readonly dataType: string | undefined;
}

interface AlterColumnsCommand extends ChangeCommand {
  /** There is at least one. */
  readonly alterations: readonly Alteration[];
}

/** Renames columns, changes their types, or whether they allow NULL. */
const alterColumns = columnChange('alter_columns', ({ alterations }: AlterColumnsCommand) => alterationOf(alterations));

export function alterationOf(alterations: readonly Alteration[]): CheckedColumnStep {
  const changes = alterations.map(({ path, ...rest }) => ({ path: formatFieldPath(path), ...rest }));
  return {
    step: { kind: 'alter columns', alterations: changes },
    check: (schema) => requireAlterable(schema, alterations),
  };
}

function requireAlterable(schema: Schema, alterations: readonly Alteration[]): void {
  for (const { path } of alterations) requireColumn(schema, path, 'alterations');
  requireOnce(
    alterations.map(({ path }) => path),
    'alterations',
  );
  const nested = alterations.find(({ path, dataType }) => dataType !== undefined && path.segments.length > 1);
  // The engine would do it, and could not filter by the other fields of the struct any more.
  if (nested !== undefined)
    throw invalidInput(
      `alterations: ${formatFieldPath(nested.path)} is in a struct, where a field keeps its type; write the whole column again`,
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

export const AlterColumnsBody = Type.Object({
  alterations: listOf(
    Type.Object({
      path: Type.String(),
      rename: OrNull(Type.String()),
      nullable: OrNull(Type.Boolean()),
      data_type: Type.Optional(Type.Unknown()),
      virtual_column: Type.Optional(Type.Unknown()),
    }),
  ),
});

export function readAlterations({ alterations }: Static<typeof AlterColumnsBody>) {
  return alterations.map(({ path, rename, nullable, data_type: type, virtual_column: virtual }, index) => {
    const at = `alterations[${index}]`;
    if (isGiven(virtual)) throw notComputed(`${at}.virtual_column`);
    if (![rename, nullable, type].some(isGiven)) throw invalidInput(`${at} says no rename, nullable or data_type`);
    return {
      path: parseFieldPath(path, `${at}.path`),
      rename: rename ?? undefined,
      isNullable: nullable ?? undefined,
      dataType: isGiven(type) ? JSON.stringify(readDataType(type, `${at}.data_type`)) : undefined,
    };
  });
}

export const alterColumnsRoute = writeRoute(alterColumns, {
  path: '/v1/table/:id/alter_columns',
  action: 'AlterTableAlterColumns',
  summary: 'Renames columns, and changes their types',
  body: AlterColumnsBody,
  command: (body, on) => ({ ...on, alterations: readAlterations(body) }),
});
