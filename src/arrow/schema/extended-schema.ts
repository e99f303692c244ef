/** What a table lacks to take the rows of a source: columns, and types with more room. */
import { refuseColumn } from './field-path.ts';
import { childNamed, isNull } from './fitted-schema.ts';
import { mostFields } from './read-schema.ts';
import { type Field, type Schema, typeName } from './schema.ts';
import { checkColumnNames, checkColumnsFit, checkNames, checkStorableFields } from './schema-rules.ts';
import { typeForBoth, withTypesOf } from './wider-types.ts';

export interface WidenedColumn {
  readonly from: Field;
  readonly to: Field;
}

export interface SchemaExtension {
  /** The columns as they are afterwards, but for their order. */
  readonly schema: Schema;
  /** All of them allow NULL. */
  readonly added: readonly Field[];
  readonly widened: readonly WidenedColumn[];
}

/**
 * Answers undefined where the table lacks nothing that it could get. It leaves types alone that no widening makes fit: the check of the
 * source against the columns refuses them. `TableSchemaValidationError` for new columns that no table can have.
 */
export function extensionOf(source: Schema, table: Schema): SchemaExtension | undefined {
  const sent = new Map(source.fields.map((field) => [field.name, field]));
  const widened = table.fields.flatMap((from) => {
    const field = sent.get(from.name);
    const to = field && widerColumn(field, from);
    return to === undefined ? [] : [{ from, to }];
  });
  const known = new Set(table.fields.map(({ name }) => name));
  // A column without a type of its own can only be NULL, which it is where it is not there.
  const lacking = source.fields.filter((field) => !known.has(field.name) && !isNull(field));
  const added = lacking.map((field) => ({ ...field, nullable: true }));
  if (added.length === 0 && widened.length === 0) return undefined;
  const wider = new Map(widened.map(({ from, to }) => [from, to]));
  const schema = { ...table, fields: [...table.fields.map((field) => wider.get(field) ?? field), ...added] };
  checkNames(schema);
  checkColumnNames(added.map(({ name }) => name));
  checkStorableFields(added);
  const [first] = added;
  if (first !== undefined && countFields(schema.fields) > mostFields)
    throw refuseColumn([first.name], `is too many: a table has at most ${mostFields} columns and fields`);
  return { schema, added, widened };
}

/** Requires columns that the table has or could get. */
export function requireExtendable(source: Schema, table: Schema): void {
  const after = extensionOf(source, table)?.schema ?? table;
  checkColumnsFit(withTypesOf(source, after), after);
}

export const countFields = (fields: readonly Field[]): number =>
  fields.reduce((sum, { children }) => sum + 1 + countFields(children), 0);

/** undefined where the column of the table stays as it is. */
function widerColumn(field: Field, target: Field): Field | undefined {
  if (isNull(field)) return undefined;
  if (isNull(target)) return { ...field, nullable: true };
  requireNoNewFields(field, target, [target.name]);
  const wider = widerField(field, target);
  return wider === undefined || typeName(wider) === typeName(target) ? undefined : wider;
}

/** The engine (Lance 12) adds fields to structs, and casts them, but then fails to read them under a filter. */
function requireNoNewFields(field: Field, target: Field, path: readonly string[]): void {
  if (field.dictionary !== undefined || field.type.kind !== target.type.kind) return;
  const isStruct = field.type.kind === 'struct';
  for (const [i, child] of field.children.entries()) {
    const inner = isStruct ? childNamed(target, child.name) : target.children[i];
    if (inner !== undefined) requireNoNewFields(child, inner, [...path, inner.name]);
    else throw refuseColumn([...path, child.name], 'does not exist in the table, and a struct gets no new fields');
  }
}

/** Whether the column of a table has room for values of another type, or could get it. */
export const couldHold = (target: Field, field: Field): boolean =>
  isNull(target) || (!isNull(field) && widerField(field, target) !== undefined);

function widerField(field: Field, target: Field): Field | undefined {
  if (field.dictionary !== undefined || target.dictionary !== undefined) return undefined;
  const [item, targetItem] = [field.children[0], target.children[0]];
  if (item !== undefined || targetItem !== undefined) {
    if (item === undefined || targetItem === undefined || !areLists(field, target)) return undefined;
    const inner = widerField(item, targetItem);
    // The engine makes no floats of integers in a list.
    return inner?.type.kind === targetItem.type.kind ? { ...target, children: [inner] } : undefined;
  }
  const type = typeForBoth(target.type, field.type);
  return type && { ...target, type };
}

const areLists = ({ type: a }: Field, { type: b }: Field): boolean =>
  (a.kind === 'list' && b.kind === 'list') ||
  (a.kind === 'large_list' && b.kind === 'large_list') ||
  (a.kind === 'fixed_size_list' && b.kind === 'fixed_size_list' && a.listSize === b.listSize);
