/** Columns of Arrow's type Null take the table's type: here their schemas, and their values in `typed-nulls.ts`. */
import { LancegateError } from '../../kernel/errors.ts';
import { formatFieldPath } from './field-path.ts';
import type { Field, Schema } from './schema.ts';

export const isNull = ({ type }: Field): boolean => type.kind === 'null';
export const holdsNull = (field: Field): boolean => isNull(field) || field.children.some(holdsNull);

export const refuse = (path: readonly string[], why: string): LancegateError =>
  new LancegateError('TableSchemaValidationError', `column ${formatFieldPath({ segments: path })} ${why}`);

/** The field with `target`'s types in place of Null. `TableSchemaValidationError` if `target` allows no NULL there. */
export function withTypedNulls(field: Field, target: Field, parent: readonly string[] = []): Field {
  if (!holdsNull(field)) return field;
  const path = [...parent, field.name];
  if (isNull(field)) {
    if (isNull(target) || target.nullable) return { ...target, name: field.name };
    throw refuse(path, 'is of type null in the source, and the table does not allow NULL in it');
  }
  if (field.children.length !== target.children.length) return field;
  return { ...field, children: field.children.map((child, i) => withTypedNulls(child, target.children[i]!, path)) };
}

/** The schema that `typeNulls` gives a source that fits the table. A column that holds Null is wholly the table's. */
export function typedSchema(source: Schema, table: Schema): Schema {
  const fields = source.fields.map((field) => targetOf(field, table) ?? field);
  return { ...source, fields };
}

export function targetOf(field: Field, table: Schema): Field | undefined {
  if (!holdsNull(field)) return undefined;
  const target = table.fields.find(({ name }) => name === field.name);
  return target !== undefined && holdsNull(target) ? undefined : target;
}
