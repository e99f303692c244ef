/** What a client can ask about a table: its description, and whether it exists. */
import Type from 'typebox';
import { lanceSchemaJson } from '../../arrow/schema/lance-json.ts';
import type { Schema } from '../../arrow/schema/schema.ts';
import { declaredColumns } from '../../create/declared-columns.ts';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { emptyAnswer, tableTarget, visibleTo } from '../../endpoint/route.ts';
import type { Snapshot } from '../../engine/port/dataset.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { BranchName } from '../../kernel/ids.ts';
import { isNothing, type ReadTarget, type TableAccess, type TableDescription } from '../../table/table-access.ts';
import { Count, StringMap, Version } from '../../wire/json-body.ts';
import { flag, readFlag } from '../../wire/query-parameters.ts';
import { findTag } from '../tags/find-tag.ts';
import type { Visible } from '../visible-page.ts';

export interface Deps {
  readonly access: TableAccess;
}

interface DescribeCommand extends ReadTarget {
  /** It names a version; a version or a branch beside it must be the same. */
  readonly tag?: { readonly name: string; readonly visible: Visible<BranchName | undefined> } | undefined;
}

/** `isManaged`: programs of Lance are to commit to it through this service. */
export interface DescribedTable extends TableDescription {
  readonly isManaged: boolean;
}

/** A declared-only table has no version and no schema: clients tell it apart by their absence. */
export const describeTable =
  ({ access, managesVersions }: Deps & { readonly managesVersions: boolean }) =>
  async (command: DescribeCommand): Promise<DescribedTable> => {
    const { table } = command;
    const record = await access.find(table);
    const { branch, version } = await resolveTag(access, command);
    const created = isNothing(record, { branch, version })
      ? undefined
      : await access.read(record, branch, version, versionWithSchema);
    return { ...access.describe(record, created), isManaged: managesVersions };
  };

async function resolveTag(
  access: TableAccess,
  { table, branch, version, tag }: DescribeCommand,
): Promise<Omit<ReadTarget, 'table'>> {
  if (tag === undefined) return { branch, version };
  const found = await findTag({ access })({ table, branch, tag: tag.name, visible: tag.visible });
  if (version === undefined || version === found.version) return found;
  throw invalidInput('version: the tag names another one');
}

/** Both are of one version (P11): another request may refresh the dataset, which it shares, between two questions. */
async function versionWithSchema(dataset: Snapshot): Promise<{ readonly version: number; readonly schema: Schema }> {
  for (;;) {
    const version = await dataset.version();
    const schema = await dataset.schema();
    if (version === (await dataset.version())) return { version, schema };
  }
}

/** Resolves for a table that exists, declared-only ones included if `version` is undefined; else `TableNotFound`. */
const tableExists =
  ({ access }: Deps) =>
  async ({ table, version }: Omit<ReadTarget, 'branch'>): Promise<void> => {
    const record = await access.find(table);
    if (version === undefined) return;
    if (isNothing(record, { branch: undefined, version })) return;
    await access.read(record, undefined, version, (dataset) => dataset.version());
  };

const DescribeBody = Type.Object({
  version: Type.Optional(Version),
  tag: Type.Optional(Type.String()),
  with_table_uri: Type.Optional(Type.Boolean()),
});

const DescribeAnswer = Type.Object({
  table: Type.String(),
  namespace: Type.Array(Type.String()),
  location: Type.String(),
  properties: StringMap,
  storage_options: StringMap,
  is_only_declared: Type.Boolean(),
  managed_versioning: Type.Optional(Type.Boolean()),
  version: Type.Optional(Count),
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
 * The LanceDB SDKs need version and schema and never ask for them, so they are in every answer. Of a table that is only
 * declared they get version 0 and the columns that it is declared with; to other clients it must have neither, by which they
 * tell it apart. `load_detailed_metadata` and `check_declared` thus change nothing; generated clients send their defaults in
 * the body beside other values in the query, which win.
 */
export const describeTableRoute = jsonRoute(describeTable, {
  path: '/v1/table/:id/describe',
  target: tableTarget,
  action: 'DescribeTable',
  summary: 'Shows the schema, version and location of a table',
  query: { with_table_uri: flag('Whether the answer says where the table is as a URI.') },
  answers: DescribeAnswer,
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
      ...(description.created === undefined &&
        input.hasTrailingSlash && { version: 0, schema: lanceSchemaJson(declaredColumns(description.properties)) }),
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

const ExistsBody = Type.Object({ version: Type.Optional(Version) });

export const tableExistsRoute = jsonRoute(tableExists, {
  path: '/v1/table/:id/exists',
  target: tableTarget,
  action: 'TableExists',
  summary: 'Says whether a table exists',
  answers: undefined,
  body: ExistsBody,
  answer: (operation, { target: table, body: { version } }) => operation({ table, version }),
  render: () => emptyAnswer,
});
