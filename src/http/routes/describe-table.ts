import Type from 'typebox';
import { LancegateError } from '../../kernel/errors.ts';
import type { DescribeTable } from '../../operations/tables/describe-table.ts';
import type { TableDescription } from '../../table/table-access.ts';
import { readFlag } from '../../wire/flags.ts';
import { Version } from '../../wire/json-body.ts';
import { jsonRoute } from '../json-route.ts';
import type { Route } from '../route.ts';
import { tableTarget } from '../targets.ts';
import { lanceSchemaJson } from './lance-schema-json.ts';

const DescribeBody = Type.Object({
  version: Type.Optional(Version),
  tag: Type.Optional(Type.String()),
  with_table_uri: Type.Optional(Type.Boolean()),
});

/**
 * The LanceDB SDKs need version and schema and never ask for them, so they are in every answer. A table that is only
 * declared must have neither: by that clients tell it apart. `load_detailed_metadata` and `check_declared` thus change
 * nothing; generated clients send their defaults in the body beside other values in the query, which win.
 */
export const describeTableRoute = (describeTable: DescribeTable): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/describe',
    target: tableTarget,
    action: 'DescribeTable',
    body: DescribeBody,
    branches: (_, branch) => [branch],
    answer: async ({ target: table, branch, query, body: { version, tag, with_table_uri } }) => {
      if (tag !== undefined) throw new LancegateError('Unsupported', 'tag: this service does not offer tags');
      const withUri = readFlag(query, 'with_table_uri') ?? with_table_uri ?? false;
      const description = await describeTable({ table, branch, version });
      return { ...describe(description), ...(withUri ? { table_uri: description.location } : {}) };
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
