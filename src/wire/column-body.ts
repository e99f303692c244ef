/** The JSON of requests that change columns. */
import Type, { type Static } from 'typebox';
import { type FieldPath, parseFieldPath } from '../arrow/schema/field-path.ts';
import { storableZone } from '../arrow/schema/schema-rules.ts';
import type { CheckedSql } from '../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { parseJson } from './json-body.ts';
import type { ReadFilter } from './merge-parameters.ts';

/** A request that changes more columns than this is a mistake. */
const mostColumns = 1_000;
/** Of an entry of metadata. */
const mostCharacters = 2 ** 20;
/** Of one field, or of a schema. */
const mostEntries = 1_000;

const OrNull = <Schema extends Type.TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));
const listOf = <Schema extends Type.TSchema>(schema: Schema) =>
  Type.Array(schema, { minItems: 1, maxItems: mostColumns });

export const AddColumnsBody = Type.Object({
  new_columns: listOf(
    Type.Object({
      name: Type.String(),
      expression: OrNull(Type.String()),
      computed: Type.Optional(Type.Unknown()),
      virtual_column: Type.Optional(Type.Unknown()),
    }),
  ),
  auto_refresh_enabled: Type.Optional(Type.Boolean()),
});

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

export const DropColumnsBody = Type.Object({ columns: listOf(Type.String()) });

export const UpdateFieldMetadataBody = Type.Object({
  updates: listOf(
    Type.Object({
      path: Type.String(),
      metadata: Type.Unsafe<Readonly<Record<string, string | null>>>({
        type: 'object',
        additionalProperties: { type: ['string', 'null'] },
      }),
      replace: OrNull(Type.Boolean()),
    }),
  ),
});

export function readNewColumns(
  { new_columns: columns, auto_refresh_enabled: isRefreshed }: Static<typeof AddColumnsBody>,
  readFilter: ReadFilter,
): readonly { readonly name: string; readonly value: CheckedSql }[] {
  if (isRefreshed === true) throw notComputed('auto_refresh_enabled');
  return columns.map(({ name, expression, computed, virtual_column: virtual }, index) => {
    const at = `new_columns[${index}]`;
    if (isGiven(computed)) throw notComputed(`${at}.computed`);
    if (isGiven(virtual)) throw notComputed(`${at}.virtual_column`);
    if (!isGiven(expression)) throw invalidInput(`${at} lacks expression`);
    return { name, value: readFilter(expression, `${at}.expression`) };
  });
}

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

export const readColumnPaths = ({ columns }: Static<typeof DropColumnsBody>): readonly FieldPath[] =>
  columns.map((text, index) => parseFieldPath(text, `columns[${index}]`));

export const readMetadataUpdates = ({ updates }: Static<typeof UpdateFieldMetadataBody>) =>
  updates.map(({ path, metadata, replace }, index) => {
    requireFewTexts(metadata, `updates[${index}].metadata`);
    return { path: parseFieldPath(path, `updates[${index}].path`), metadata, isWhole: replace ?? false };
  });

/** The whole body is the metadata: any key may be in it. */
export function parseSchemaMetadata(text: string): Readonly<Record<string, string>> {
  const value = text.trim() === '' ? {} : parseJson(text, 'the body');
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isMap || !Object.values(value).every((each) => typeof each === 'string')) {
    throw invalidInput('the body must be a JSON object of texts: the metadata that the schema is to have');
  }
  requireFewTexts(value as Readonly<Record<string, string>>, 'the body');
  return value as Readonly<Record<string, string>>;
}

function requireFewTexts(metadata: Readonly<Record<string, string | null>>, what: string): void {
  const entries = Object.entries(metadata);
  if (entries.length > mostEntries) throw invalidInput(`${what} can have ${mostEntries} entries`);
  const characters = entries.reduce((sum, [key, value]) => sum + key.length + (value?.length ?? 0), 0);
  if (characters > mostCharacters) throw invalidInput(`${what} can have ${mostCharacters} characters`);
}

const isGiven = <Value>(value: Value): value is NonNullable<Value> => value !== undefined && value !== null;

const notComputed = (at: string): LancegateError =>
  new LancegateError(
    'Unsupported',
    `${at}: this service has no columns that are computed again; give an expression, which is computed once`,
  );

/** Deeper types are no columns that can be cast. */
const mostDepth = 8;
const mostListSize = 2 ** 20;

interface LanceDataType {
  readonly type: string;
  readonly length?: number;
  readonly fields?: readonly LanceField[];
}

interface LanceField {
  readonly name: string;
  readonly type: LanceDataType;
  readonly nullable: boolean;
}

/** The names that the specification's reference server takes, by Lance's. */
const lanceNames: ReadonlyMap<string, string> = new Map([
  ['boolean', 'bool'],
  ['utf8', 'string'],
  ['large_utf8', 'large_string'],
  ['float16', 'halffloat'],
  ['float32', 'float'],
  ['float64', 'double'],
  ['date32', 'date32:day'],
  ['date64', 'date64:ms'],
]);

const plainType =
  /^(?:bool|u?int(?:8|16|32|64)|halffloat|float|double|(?:large_)?(?:string|binary)|date32:day|date64:ms|time32:m?s|time64:[un]s|duration:(?:[mun]?s)|decimal:(?:128|256):\d{1,2}:-?\d{1,2}|dict:(?:large_)?(?:string|binary):u?int(?:8|16|32|64):false)$/;
const timestampType = /^timestamp:[mun]?s:(.+)$/;

/** In Lance's dialect, which the engine reads. Of every type it is known what native code is given. */
function readDataType(value: unknown, at: string, depth = 1): LanceDataType {
  if (typeof value !== 'object' || value === null || depth > mostDepth) throw invalidInput(`${at} is no data type`);
  const { type: given, length, fields } = value as Readonly<Record<string, unknown>>;
  if (typeof given !== 'string') throw invalidInput(`${at} lacks type`);
  const type = lanceNames.get(given) ?? given;
  if (plainType.test(type) || isTimestamp(type)) return { type };
  switch (type) {
    case 'fixed_size_binary':
      return { type, length: readLength(length, at) };
    case 'fixed_size_list':
      return { type, length: readLength(length, at), fields: readFields(fields, at, depth) };
    case 'list':
    case 'large_list':
    case 'struct':
      return { type, fields: readFields(fields, at, depth) };
    default:
      throw invalidInput(`${at}: a column cannot be made of type ${JSON.stringify(given.slice(0, 100))}`);
  }
}

function isTimestamp(type: string): boolean {
  const zone = timestampType.exec(type)?.[1];
  return zone === '-' || (zone !== undefined && storableZone.test(zone));
}

function readLength(length: unknown, at: string): number {
  if (typeof length === 'number' && Number.isInteger(length) && length > 0 && length <= mostListSize) return length;
  throw invalidInput(`${at}: length must be a number from 1 to ${mostListSize}`);
}

function readFields(fields: unknown, at: string, depth: number): readonly LanceField[] {
  if (!Array.isArray(fields) || fields.length === 0 || fields.length > mostColumns) {
    throw invalidInput(`${at}: the type has fields, which are not given`);
  }
  return fields.map((field: unknown, index) => {
    const { name, type, nullable } = (field ?? {}) as Readonly<Record<string, unknown>>;
    const within = `${at}.fields[${index}]`;
    if (typeof name !== 'string' || name.includes('\0')) throw invalidInput(`${within} lacks a name`);
    return { name, type: readDataType(type, `${within}.type`, depth + 1), nullable: nullable !== false };
  });
}
