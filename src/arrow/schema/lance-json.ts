/** Schemas in the dialect of Lance (`arrow/json.rs`), which LanceDB clients read in the answer to a describe. */
import { invalidInput } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import type { DataType, Field, Schema, TimeUnit } from './schema.ts';

interface LanceTypeJson {
  readonly type: string;
  readonly fields?: readonly LanceFieldJson[];
  readonly length?: number;
}
interface LanceFieldJson {
  readonly name: string;
  readonly type: LanceTypeJson;
  readonly nullable: boolean;
  readonly metadata?: Readonly<Record<string, string>>;
}

/**
 * Another dialect exists in the namespace specification's reference server, which LanceDB rejects. For schemas that
 * `checkStorable` passes: the names of other types are not Lance's.
 */
export const lanceSchemaJson = (schema: Schema) => ({
  fields: schema.fields.map(fieldJson),
  ...metadataJson(schema.metadata),
});

/** The text of a type, as an alteration of columns has it. */
export const dataTypeJson = (field: Field): string => JSON.stringify(typeJson(field));

const fieldJson = (field: Field): LanceFieldJson => ({
  name: field.name,
  type: typeJson(field),
  nullable: field.nullable,
  ...metadataJson(field.metadata),
});

const metadataJson = (metadata: ReadonlyMap<string, string>): { metadata?: Readonly<Record<string, string>> } =>
  metadata.size === 0 ? {} : { metadata: Object.fromEntries(metadata) };

function typeJson(field: Field): LanceTypeJson {
  const { type, children, dictionary } = field;
  if (dictionary !== undefined) {
    return { type: `dict:${lanceName(type)}:${intName(dictionary.index.bitWidth, dictionary.index.signed)}:false` };
  }
  const named = { type: lanceName(type) };
  if (type.kind === 'fixed_size_binary') return { ...named, length: type.byteWidth };
  if (type.kind === 'fixed_size_list') return { ...named, fields: children.map(fieldJson), length: type.listSize };
  const isNested = type.kind === 'struct' || type.kind === 'list' || type.kind === 'large_list' || type.kind === 'map';
  return isNested ? { ...named, fields: children.map(fieldJson) } : named;
}

function lanceName(type: DataType): string {
  switch (type.kind) {
    case 'int':
      return intName(type.bitWidth, type.signed);
    case 'float':
      return { 16: 'halffloat', 32: 'float', 64: 'double' }[type.bitWidth];
    case 'utf8':
      return 'string';
    case 'large_utf8':
      return 'large_string';
    case 'date':
      return type.unit === 'day' ? 'date32:day' : 'date64:ms';
    case 'time':
      return `${type.unit === 's' || type.unit === 'ms' ? 'time32' : 'time64'}:${type.unit}`;
    case 'timestamp':
      return `timestamp:${type.unit}:${type.timezone ?? '-'}`;
    case 'duration':
      return `duration:${type.unit}`;
    case 'decimal':
      return `decimal:${type.bitWidth}:${type.precision}:${type.scale}`;
    default:
      return type.kind;
  }
}

const intName = (bitWidth: number, signed: boolean): string => `${signed ? 'int' : 'uint'}${bitWidth}`;

const units: readonly TimeUnit[] = ['s', 'ms', 'us', 'ns'];
const widths = [8, 16, 32, 64] as const;

/** The types whose name says all of them, by that name. */
const namedTypes: ReadonlyMap<string, DataType> = new Map(
  [
    ...(['bool', 'binary', 'utf8', 'large_binary', 'large_utf8'] as const).map((kind) => ({ kind })),
    ...widths.flatMap((bitWidth) => [true, false].map((signed) => ({ kind: 'int', bitWidth, signed }) as const)),
    ...([16, 32, 64] as const).map((bitWidth) => ({ kind: 'float', bitWidth }) as const),
    ...(['day', 'ms'] as const).map((unit) => ({ kind: 'date', unit }) as const),
    ...units.flatMap((unit) => [{ kind: 'time', unit } as const, { kind: 'duration', unit } as const]),
  ].map((type) => [lanceName(type), type]),
);

const nestedKinds = ['list', 'large_list', 'struct', 'fixed_size_list'] as const;

/** What `lanceSchemaJson` makes, without metadata and dictionaries. `InvalidInput` names the field that is none. */
export function readLanceSchema(value: unknown, at: string): Schema {
  refuseMetadata(value, at);
  return { fields: readFields(isObject(value) ? value.fields : undefined, at), metadata: new Map() };
}

function readFields(fields: unknown, at: string): readonly Field[] {
  if (!Array.isArray(fields) || fields.length === 0)
    throw invalidInput(`${at}: expected {"fields": [...]}, a schema as describe answers it`);
  return fields.map((field: unknown, index) => {
    const within = `${at}.fields[${index}]`;
    refuseMetadata(field, within);
    const { name, type, nullable = true } = isObject(field) ? field : {};
    if (typeof name !== 'string') throw invalidInput(`${within} lacks a name`);
    if (typeof nullable !== 'boolean') throw invalidInput(`${within}: nullable is true or false`);
    if (!isObject(type) || typeof type.type !== 'string')
      throw invalidInput(`${within} lacks a type such as {"type": "int64"}`);
    const read = readType(type.type, type.length, within);
    const isNested = nestedKinds.some((kind) => kind === read.kind);
    const children = isNested ? readFields(type.fields, `${within}.type`) : [];
    return { name, nullable, type: read, dictionary: undefined, children, metadata: new Map() };
  });
}

function refuseMetadata(value: unknown, at: string): void {
  const metadata = isObject(value) ? (value.metadata ?? {}) : {};
  if (!isObject(metadata) || Object.keys(metadata).length > 0) throw invalidInput(`${at}: metadata cannot be declared`);
}

function readType(name: string, length: unknown, at: string): DataType {
  const plain = namedTypes.get(name);
  if (plain !== undefined) return plain;
  const unit = units.find((each) => name.startsWith(`timestamp:${each}:`));
  if (unit !== undefined) {
    const timezone = name.slice(`timestamp:${unit}:`.length);
    return { kind: 'timestamp', unit, timezone: timezone === '-' ? undefined : timezone };
  }
  const [, width, precision, scale] = /^decimal:(128|256):(\d{1,2}):(-?\d{1,2})$/.exec(name) ?? [];
  if (width !== undefined)
    return {
      kind: 'decimal',
      bitWidth: width === '128' ? 128 : 256,
      precision: Number(precision),
      scale: Number(scale),
    };
  if (name === 'list' || name === 'large_list' || name === 'struct') return { kind: name };
  if (name !== 'fixed_size_list' && name !== 'fixed_size_binary')
    throw invalidInput(`${at}: a column cannot be declared of type ${JSON.stringify(name.slice(0, 100))}`);
  if (typeof length !== 'number' || !Number.isInteger(length) || length < 1 || length > 2 ** 20)
    throw invalidInput(`${at}: length must be a number from 1 to ${2 ** 20}`);
  return name === 'fixed_size_list' ? { kind: name, listSize: length } : { kind: name, byteWidth: length };
}
