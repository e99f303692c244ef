/** Decides which schemas may become tables, and which sources fit a table. All refusals are `TableSchemaValidationError`. */
import { isDeepStrictEqual } from 'node:util';
import { LancegateError } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import { formatFieldPath, refuseColumn } from './field-path.ts';
import { absentFields, fittedSchema, isNull, targetOf } from './fitted-schema.ts';
import { columnLayout, type Field, type Schema, typeName } from './schema.ts';
import { isKnownZone } from './time-zones.ts';

/** This service may add columns of such names to what it hands the engine. */
const reservedPrefix = '__lancegate_';

/**
 * The engine's own: it refuses a top-level column of the first names, and no table with one of the last two can be merged
 * into.
 */
const engineColumns: ReadonlySet<string> = new Set([
  '_rowid',
  '_rowaddr',
  '_rowoffset',
  '_row_created_at_version',
  '_row_last_updated_at_version',
  '__action',
  '__merge_source_sentinel',
]);

const refuse = (why: string) => new LancegateError('TableSchemaValidationError', why);
const show = (path: readonly string[]): string => formatFieldPath({ segments: path });

/**
 * The engine accepts a column with an empty name at create, and then fails every read of the table. The element of a
 * list may have none: it is never asked for by name, and apache-arrow writes it so.
 */
function checkSiblings(fields: readonly Field[], parent: readonly string[], mayBeNameless: boolean): void {
  const seen = new Set<string>();
  for (const { name, type, children } of fields) {
    const path = [...parent, name];
    if (name === '' && !mayBeNameless) {
      throw refuse(`${parent.length === 0 ? 'a column' : `a field of ${show(parent)}`} has an empty name`);
    }
    // Arrow's C interface ends a name there: pylance aborts the whole process that opens such a table.
    if (name.includes('\0')) throw refuse(`column ${JSON.stringify(name)}: a name cannot hold a NUL character`);
    if (seen.has(name)) throw refuseColumn(path, 'appears twice');
    seen.add(name);
    checkSiblings(children, path, type.kind !== 'struct');
  }
}

/** Requires that no name of a client's schema is empty or reserved, and no two siblings are alike. */
export function checkNames(schema: Schema): void {
  const reserved = schema.fields.find(({ name }) => name.startsWith(reservedPrefix));
  if (reserved !== undefined)
    throw refuse(`column ${reserved.name}: names beginning with ${reservedPrefix} are reserved`);
  const taken = schema.fields.find(({ name }) => engineColumns.has(name));
  if (taken !== undefined) throw refuse(`column ${taken.name}: the name is reserved by Lance`);
  checkSiblings(schema.fields, [], false);
}

const unstorable = (field: Field): string | undefined => unstorableType(field) ?? unstorableMetadata(field);

function unstorableType(field: Field): string | undefined {
  const { type } = field;
  if (type.kind === 'interval' || type.kind === 'map') return 'cannot be read back by clients';
  if (type.kind === 'decimal' && type.bitWidth < 128) return 'cannot be stored; decimal128 and decimal256 can';
  if (type.kind === 'timestamp' && type.timezone !== undefined && !isKnownZone(type.timezone)) {
    return 'cannot be stored: its time zone must be a name that Lance knows, such as UTC or Europe/Berlin; cast one of a fixed offset to UTC';
  }
  if (field.dictionary !== undefined && !dictionaryValues.includes(type.kind)) {
    return 'cannot be stored: dictionaries hold texts, bytes, numbers or booleans';
  }
  if (type.kind === 'struct' && field.children.length === 0) return 'cannot be stored: it has no fields';
  if (type.kind === 'fixed_size_list' && !field.children.every(isListElement)) {
    return 'cannot be stored: its elements must have a fixed width';
  }
  return undefined;
}

function unstorableMetadata(field: Field): string | undefined {
  if (isBlob(field)) return 'cannot be stored as a blob; without that metadata it can';
  const json = ['arrow.json', 'lance.json'].find((name) => name === field.metadata.get(extensionName));
  if (json !== undefined) {
    return `cannot be stored as ${json}: Lance makes it binary, and nothing could be merged into it; send plain utf8`;
  }
  return undefined;
}

const extensionName = 'ARROW:extension:name';

/** Says whether a column holds JSON in the form of Lance. The engine stores any bytes for it, and can read back its own only. */
const holdsJson = ({ metadata, children }: Field): boolean =>
  metadata.get(extensionName) === 'lance.json' || children.some(holdsJson);

/** Blobs have files of their own that no manifest names, so they would neither be synced nor be looked for after a crash. */
const isBlob = ({ metadata }: Field): boolean =>
  metadata.get(extensionName) === 'lance.blob.v2' || metadata.has('lance-encoding:blob');

/** The engine panics on dictionaries of anything else. */
const dictionaryValues: readonly string[] = ['utf8', 'large_utf8', 'binary', 'large_binary', 'int', 'float', 'bool'];

/**
 * The engine panics on fixed-size lists of texts and the like. Of structs it stores them, and then no table that has another
 * column as well can be read ("columns of differing lengths").
 */
function isListElement(field: Field): boolean {
  if (field.dictionary !== undefined) return false;
  if (field.type.kind === 'fixed_size_list') return field.children.every(isListElement);
  return field.type.kind !== 'interval' && (columnLayout(field).valueBits ?? 0) > 0;
}

/** Refuses a field, also inside of another, whose type the engine does not store or clients cannot read back. */
export const checkStorableFields = (fields: readonly Field[]): void => refuseAny(fields, [], unstorable);

/** Refuses metadata of columns that a table has; their types are not asked about. */
export const checkStorableMetadata = (fields: readonly Field[]): void => refuseAny(fields, [], unstorableMetadata);

function refuseAny(fields: readonly Field[], parent: readonly string[], faultOf: typeof unstorable): void {
  for (const field of fields) {
    const path = [...parent, field.name];
    const why = faultOf(field);
    if (why !== undefined) throw refuse(`column ${show(path)}: type ${typeName(field)} ${why}`);
    refuseAny(field.children, path, faultOf);
  }
}

/**
 * Refuses what the engine does not store, panics on, or stores so that LanceDB clients cannot read it back. A top-level
 * column whose name holds a backtick it stores, and then neither matches nor filters by it.
 */
export function checkStorable(schema: Schema): void {
  checkNames(schema);
  requireReachable(schema.fields.map(({ name }) => name));
  checkStorableFields(schema.fields);
  requireValues(schema);
}

/**
 * Checks columns that another program has written as `checkStorable` does, but for what only the service itself could not write. Programs
 * of Lance do, and such a table can be read.
 */
export function checkWrittenColumns(fields: readonly Field[]): void {
  checkNames({ fields, metadata: new Map() });
  requireReachable(fields.map(({ name }) => name));
  refuseAny(fields, [], (field) => (field.type.kind === 'map' ? undefined : unstorableType(field)));
}

/** Refuses names of new columns that are empty, alike or reserved, or that no filter could reach. */
export function checkColumnNames(names: readonly string[]): void {
  checkNames({ fields: names.map(columnOf), metadata: new Map() });
  requireReachable(names);
}

const columnOf = (name: string): Field => ({
  name,
  nullable: true,
  type: { kind: 'null' },
  dictionary: undefined,
  children: [],
  metadata: new Map(),
});

function requireReachable(names: readonly string[]): void {
  // The engine takes a column of this name for all columns of the table.
  if (names.includes('*')) throw refuse('column "*": a top-level name cannot be an asterisk alone');
  const unreachable = names.find((name) => /[.`]/.test(name));
  if (unreachable === undefined) return;
  throw refuse(`column ${show([unreachable])}: a top-level name cannot hold a dot or a backtick`);
}

/** A column of type Null can only hold NULL; a table with only such columns is a mistake. */
function requireValues({ fields }: Schema): void {
  if (fields.length === 0 || !fields.every(({ type }) => type.kind === 'null')) return;
  const names = fields.map(({ name }) => show([name])).join(', ');
  throw refuse(
    `every column is of type null (${names}), which can hold no value: give each the type its values will have`,
  );
}

/**
 * Says whether the engine takes `a` where the table has `b`. Nullability, metadata and dictionary ids do not matter; the
 * names of a struct's fields, their order, and the names of a list's elements do.
 */
export function sameType(a: Field, b: Field): boolean {
  return (
    sameValues(a, b) &&
    a.children.length === b.children.length &&
    paired(a.children, b.children).every(
      ([child, other]) => (child.name === other.name || a.type.kind === 'fixed_size_list') && sameType(child, other),
    )
  );
}

/** Compares names, order, types, nullability and metadata. The message shows nothing of the table, which its reader may not see. */
export function requireSameSchema(source: Schema, table: Schema): void {
  const isSame = isDeepStrictEqual(source.metadata, table.metadata) && sameFields(source.fields, table.fields);
  if (!isSame) throw refuse('the table is there with another schema, and exist_ok leaves it as it is');
}

const sameFields = (a: readonly Field[], b: readonly Field[]): boolean =>
  a.length === b.length && paired(a, b).every((pair) => sameField(...pair));

/** The elements of a fixed-size list are stored without what is not their type. */
const sameField = (a: Field, b: Field): boolean =>
  a.name === b.name &&
  a.nullable === b.nullable &&
  isDeepStrictEqual(a.metadata, b.metadata) &&
  (a.type.kind === 'fixed_size_list' ? sameType(a, b) : sameValues(a, b) && sameFields(a.children, b.children));

const sameValues = (a: Field, b: Field): boolean =>
  isDeepStrictEqual(a.type, b.type) && isDeepStrictEqual(a.dictionary?.index, b.dictionary?.index);

/**
 * The source's columns must be among the table's, of equal type, and so the fields of its structs, of which it may send some. What is of
 * type Null fits whatever allows NULL.
 */
export function checkColumnsFit(source: Schema, table: Schema): void {
  const blob = table.fields.find(isBlob);
  if (blob !== undefined) throw refuseColumn([blob.name], 'holds blobs, and such a table can only be read');
  for (const field of source.fields) {
    const target = targetOf(field, table);
    if (target === undefined) throw refuseColumn([field.name], 'does not exist in the table');
    if (!isNull(field) && holdsJson(target)) {
      throw refuseColumn([field.name], 'holds lance.json in the table, which cannot be written: leave the column out');
    }
    const [fitted] = fittedSchema({ ...source, fields: [field] }, table).fields;
    if (fitted === undefined || !sameType(fitted, target)) {
      throw refuseColumn([field.name], `is ${typeName(target)} in the table and ${typeName(field)} in the source`);
    }
  }
}

/** Checks as `checkColumnsFit` does, for rows that may become new ones: they must have each field in which the table allows no NULL. */
export function checkSourceFits(source: Schema, table: Schema): void {
  checkColumnsFit(source, table);
  const sent = new Set(source.fields.map(({ name }) => name));
  const column = table.fields.find(({ name, nullable }) => !nullable && !sent.has(name));
  if (column !== undefined) throw missing([column.name]);
  const inside = absentFields(source, table).find(({ field }) => !field.nullable);
  if (inside !== undefined) throw missing(inside.path.segments);
}

const missing = (path: readonly string[]): LancegateError =>
  refuseColumn(path, 'is missing in the source, and the table does not allow NULL in it');
