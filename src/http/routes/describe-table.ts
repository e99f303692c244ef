import Type from 'typebox';
import type { DataType, Field, Schema } from '../../arrow/schema/schema.ts';
import { describeTable } from '../../operations/tables/describe-table.ts';
import type { TableDescription } from '../../table/table-access.ts';
import { Count, StringMap, Version } from '../../wire/json-body.ts';
import { Flag, readFlag } from '../../wire/query-parameters.ts';
import { jsonRoute } from '../json-route.ts';
import { tableTarget, visibleTo } from '../route.ts';

const DescribeBody = Type.Object({
  version: Type.Optional(Version),
  tag: Type.Optional(Type.String()),
  with_table_uri: Type.Optional(Type.Boolean()),
});

const DescribedTable = Type.Object({
  table: Type.String(),
  namespace: Type.Array(Type.String()),
  location: Type.String(),
  properties: StringMap,
  storage_options: StringMap,
  is_only_declared: Type.Boolean(),
  managed_versioning: Type.Optional(Type.Boolean()),
  version: Type.Optional(Version),
  schema: Type.Optional(
    Type.Object({
      fields: Type.Array(
        Type.Object({
          name: Type.String(),
          type: Type.Object({
            type: Type.String(),
            fields: Type.Optional(Type.Array(Type.Unknown({ description: 'As the fields of the schema.' }))),
            length: Type.Optional(Count),
          }),
          nullable: Type.Boolean(),
          metadata: Type.Optional(StringMap),
        }),
      ),
      metadata: Type.Optional(StringMap),
    }),
  ),
  table_uri: Type.Optional(Type.String()),
});

/**
 * The LanceDB SDKs need version and schema and never ask for them, so they are in every answer. A table that is only
 * declared must have neither: by that clients tell it apart. `load_detailed_metadata` and `check_declared` thus change
 * nothing; generated clients send their defaults in the body beside other values in the query, which win.
 */
export const describeTableRoute = jsonRoute(describeTable, {
  methods: ['POST'],
  path: '/v1/table/:id/describe',
  target: tableTarget,
  action: 'DescribeTable',
  summary: 'Shows the schema, version and location of a table',
  query: { with_table_uri: Flag },
  answers: DescribedTable,
  body: DescribeBody,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body: { version, tag, with_table_uri } }, input) => {
    const withUri = readFlag(input.query, 'with_table_uri') ?? with_table_uri ?? false;
    const visible = visibleTo(input.access, table);
    const description = await operation({
      table,
      branch,
      version,
      tag: tag === undefined ? undefined : { name: tag, visible },
    });
    return {
      ...describe({ ...description, table: input.database.shown(description.table) }),
      ...(description.isManaged && { managed_versioning: true }),
      ...(withUri && { table_uri: description.location }),
    };
  },
});

const describe = ({ table, location, properties, storageOptions, created }: TableDescription) => ({
  table: table.name,
  namespace: table.namespace,
  location,
  properties,
  storage_options: storageOptions,
  is_only_declared: created === undefined,
  ...(created === undefined ? {} : { version: created.version, schema: lanceSchemaJson(created.schema) }),
});

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
 * A schema as LanceDB clients read it in the answer to a describe: the Lance dialect (`arrow/json.rs` of Lance). Another
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
