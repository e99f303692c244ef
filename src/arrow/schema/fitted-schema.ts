/**
 * Lays out a source's columns as the table's are. The fields of a struct are taken by name, in any order, also inside lists;
 * those that the source does not send are absent. Fields of Arrow's type Null get the table's type. `schema-rules.ts` says what is
 * refused besides, and `column/fitted-rows.ts` fits the rows.
 */
import { type FieldPath, refuseColumn } from './field-path.ts';
import type { Field, Schema } from './schema.ts';

/** Only NULL is in it, whatever the table's type is. */
export const isNull = ({ type, dictionary }: Field): boolean => type.kind === 'null' && dictionary === undefined;

/** Whether values of one type lie otherwise than those of another; told as cheaply as it can be, for each column of each source. */
export function isOtherType({ type: a }: Field, { type: b }: Field): boolean {
  if (a === b) return false;
  if (a.kind === 'int' && b.kind === 'int') return a.bitWidth !== b.bitWidth || a.signed !== b.signed;
  if (a.kind === 'float' && b.kind === 'float') return a.bitWidth !== b.bitWidth;
  if (a.kind === 'decimal' && b.kind === 'decimal') return a.precision !== b.precision || a.bitWidth !== b.bitWidth;
  return a.kind !== b.kind;
}

const isStruct = ({ type, dictionary }: Field): boolean => type.kind === 'struct' && dictionary === undefined;

export const childNamed = ({ children }: Field, name: string): Field | undefined =>
  children.find((child) => child.name === name);

/**
 * Says whether a field of a source is laid out otherwise than the table's: its values have to be written again. `isPart`: the source leaves
 * out columns. Then the fields in it must be declared as the table's, NULL or not: where they are not, the engine (Lance 12) merges in
 * another way, which silently loses rows whose key is NULL, refuses to delete and misreads filters.
 */
function differs(field: Field, target: Field, isPart: boolean): boolean {
  if (isNull(field)) return !isNull(target);
  if (isOtherType(field, target)) return true;
  const { children } = field;
  if (isStruct(field) && isStruct(target) && children.length !== target.children.length) return true;
  return children.some((child, i) => {
    const other = target.children[i];
    if (other === undefined) return false;
    if (isPart && child.nullable !== other.nullable) return true;
    return (field.type.kind !== 'fixed_size_list' && child.name !== other.name) || differs(child, other, isPart);
  });
}

/** Says whether the rows of a source go into the table as they are. NULL in columns that it does not send is the engine's to add. */
export const isFitted = (source: Schema, table: Schema): boolean =>
  source.fields.every((field) => {
    const target = targetOf(field, table);
    return target !== undefined && !differs(field, target, isPartOf(source, table));
  });

const isPartOf = (source: Schema, table: Schema): boolean => source.fields.length < table.fields.length;

export const targetOf = ({ name }: Field, table: Schema): Field | undefined =>
  table.fields.find((field) => field.name === name);

/** Makes the schema that `fitRows` gives the rows of a source. `TableSchemaValidationError` names a field that cannot be fitted. */
export function fittedSchema(source: Schema, table: Schema): Schema {
  const fields = source.fields.map((field) => {
    const target = targetOf(field, table);
    return target === undefined || !differs(field, target, isPartOf(source, table))
      ? field
      : fittedField(field, target, []);
  });
  return { ...source, fields };
}

/** Its types are its own, so that they can be compared with the table's. */
function fittedField(field: Field, target: Field, parent: readonly string[], isInList = false): Field {
  const path = [...parent, field.name];
  if (isNull(field)) {
    if (isNull(target) || target.nullable) return target;
    throw refuseColumn(path, 'is of type null in the source, and the table does not allow NULL in it');
  }
  const { name, nullable, metadata } = target;
  return { ...field, name, nullable, metadata, children: fittedChildren(field, target, path, isInList) };
}

function fittedChildren(field: Field, target: Field, path: readonly string[], isInList: boolean): readonly Field[] {
  if (!isStruct(field) || !isStruct(target)) {
    return field.children.map((child, i) => {
      const other = target.children[i];
      return other === undefined ? child : fittedField(child, other, path, true);
    });
  }
  const unknown = field.children.find(({ name }) => childNamed(target, name) === undefined);
  if (unknown !== undefined) throw refuseColumn([...path, unknown.name], 'does not exist in the table');
  return target.children.map((child) => {
    const sent = childNamed(field, child.name);
    if (sent !== undefined) return fittedField(sent, child, path, isInList);
    if (!isInList) return child;
    throw refuseColumn(
      [...path, child.name],
      'is missing in the source: a struct in a list has all fields of the table',
    );
  });
}

export interface AbsentField {
  readonly field: Field;
  readonly path: FieldPath;
}

/** Finds the outermost fields of the table's structs that the source does not send, of the columns that it sends. */
export const absentFields = (source: Schema, table: Schema): readonly AbsentField[] =>
  absentOf(source.fields, table.fields, []);

function absentOf(
  source: readonly Field[],
  table: readonly Field[],
  parent: readonly string[],
): readonly AbsentField[] {
  return source.flatMap((field) => {
    const target = table.find(({ name }) => name === field.name);
    if (target === undefined || !isStruct(field) || !isStruct(target)) return [];
    const segments = [...parent, field.name];
    const own = target.children.filter(({ name }) => childNamed(field, name) === undefined);
    return [
      ...own.map((child) => ({ field: child, path: { segments: [...segments, child.name] } })),
      ...absentOf(field.children, target.children, segments),
    ];
  });
}
