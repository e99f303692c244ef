import type { DataType, Field, Schema } from '../../arrow/schema/schema.ts';

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
 * LanceDB clients read a schema so in the answer to a describe: in the Lance dialect (`arrow/json.rs` of Lance). Another
 * dialect exists in the namespace specification's reference server, which LanceDB rejects. For schemas that `checkStorable`
 * passes: the names of other types are not Lance's.
 */
export const lanceSchemaJson = (schema: Schema) => ({
  fields: schema.fields.map(fieldJson),
  ...metadataJson(schema.metadata),
});

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
