import Type, { type Static } from 'typebox';
import { answeredOnce } from '../../../idempotency/idempotency.ts';
import { invalidInput } from '../../../kernel/errors.ts';
import { createVersion, createVersions, type Proposal } from '../../../operations/tables/create-version.ts';
import { deleteVersions } from '../../../operations/tables/delete-versions.ts';
import { describeVersion, type ListedVersion, listVersions } from '../../../operations/tables/list-versions.ts';
import { parseBranch, parseTableParts } from '../../../wire/identifiers.ts';
import { Count, nextPage, pageFields, StringMap, Version } from '../../../wire/json-body.ts';
import { Flag, readFlag, readPage } from '../../../wire/query-parameters.ts';
import { jsonRoute, onceAnswer, writeAnswer } from '../../json-route.ts';
import { noTarget, tableTarget } from '../../route.ts';

const ListBody = Type.Object({ descending: Type.Optional(Type.Boolean()), ...pageFields });

const TableVersion = Type.Object({
  version: Version,
  timestamp_millis: Count,
  /** The LanceDB SDKs up to 0.36 require this and `metadata`. */
  timestamp: Type.String({ format: 'date-time' }),
  metadata: StringMap,
  manifest_path: Type.String(),
  manifest_size: Type.Optional(Count),
  e_tag: Type.Optional(Type.String()),
});
const Versions = Type.Object({ versions: Type.Array(TableVersion), ...nextPage });

/**
 * Newest first, unless `descending=false`. The LanceDB SDKs ask without a limit, follow no token and expect the newest version
 * last: they get the newest page in that order.
 */
export const listVersionsRoute = jsonRoute(listVersions, {
  methods: ['POST'],
  path: '/v1/table/:id/version/list',
  target: tableTarget,
  action: 'ListTableVersions',
  summary: 'Lists the versions of a table',
  query: { ...pageFields, descending: Flag },
  answers: Versions,
  body: ListBody,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body }, { query, hasTrailingSlash }) => {
    const descending = readFlag(query, 'descending') ?? body.descending;
    const order = descending === false ? 'ascending' : 'descending';
    const { items, next } = await operation({ table, branch, page: readPage(query, body), order });
    const shown = hasTrailingSlash && descending === undefined ? items.toReversed() : items;
    return { versions: shown.map(tableVersion), page_token: next };
  },
});

export const describeVersionRoute = jsonRoute(describeVersion, {
  methods: ['POST'],
  path: '/v1/table/:id/version/describe',
  target: tableTarget,
  action: 'DescribeTableVersion',
  summary: 'Shows one version of a table',
  answers: Type.Object({ version: TableVersion }),
  body: Type.Object({ version: Type.Optional(Version) }),
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body: { version } }) => ({
    version: tableVersion(await operation({ table, branch, version })),
  }),
});

/** More are refused; ranges that meet can be given as one. */
const mostRanges = 1_000;

/** `end_version` is not in the range; -1 leaves it open. */
const Range = Type.Object({ start_version: Type.Integer({ minimum: 0 }), end_version: Type.Integer({ minimum: -1 }) });

/** The specification has records of versions, apart from the table's files; here a version goes with its files. */
export const deleteVersionsRoute = jsonRoute(answeredOnce('delete_versions', deleteVersions), {
  methods: ['POST'],
  path: '/v1/table/:id/version/delete',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key',
  action: 'BatchDeleteTableVersions',
  summary: 'Removes versions of a table that nothing needs, before their retention ends',
  answers: Type.Object({ deleted_count: Count }),
  body: Type.Object({ ranges: Type.Array(Range, { maxItems: mostRanges }) }),
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const ranges = body.ranges.map(({ start_version: from, end_version: end }) => ({
      from,
      before: end === -1 ? Number.POSITIVE_INFINITY : end,
    }));
    const deletedVersions = onceAnswer(input, await operation({ table, branch, ranges, idempotency }, input.scope));
    input.context.note({ deletedVersions });
    return { deleted_count: deletedVersions };
  },
});

/** `metadata` would be lost: nothing keeps it beside the manifest. The tag of an object says nothing that its name does not. */
const proposedFields = {
  version: Version,
  manifest_path: Type.String(),
  manifest_size: Type.Optional(Count),
  naming_scheme: Type.Optional(Type.Union([Type.Literal('V1'), Type.Literal('V2')])),
  e_tag: Type.Optional(Type.String()),
  metadata: Type.Optional(StringMap),
};
const ProposedVersion = Type.Object(proposedFields);

/** The program has written the files of the version and its manifest, and the service makes it the next version. */
export const createVersionRoute = jsonRoute(createVersion, {
  methods: ['POST'],
  path: '/v1/table/:id/version/create',
  target: tableTarget,
  action: 'CreateTableVersion',
  summary: 'Makes what a program of Lance has written the next version of a table',
  answers: Type.Object({ version: TableVersion, transaction_id: Type.String() }),
  body: ProposedVersion,
  isWrite: true,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body, idempotency }, input) => {
    const command = { table, branch, proposed: proposedManifest(body), idempotency };
    const { listed, ...written } = await operation(command, input.scope);
    const { transaction_id } = writeAnswer(input, written, {});
    return { version: tableVersion(listed), transaction_id };
  },
});

const mostEntries = 1_000;

/** The specification wants all versions or none, and a version of one table is all that can be made at once. */
export const createVersionsRoute = jsonRoute(createVersions, {
  methods: ['POST'],
  path: '/v1/table/version/batch-create',
  target: noTarget,
  action: 'CreateTableVersion',
  summary: 'As version/create, of one table',
  operationId: 'BatchCreateTableVersions',
  answers: Type.Object({ versions: Type.Array(TableVersion), transaction_id: Type.Optional(Type.String()) }),
  body: Type.Object({
    entries: Type.Array(
      Type.Object({ ...proposedFields, id: Type.Array(Type.String()), branch: Type.Optional(Type.String()) }),
      { maxItems: mostEntries },
    ),
  }),
  isWrite: true,
  answer: async (operation, { body, idempotency }, input) => {
    const commands = body.entries.map((entry) => {
      const table = input.database.table(parseTableParts(entry.id.slice(0, -1), entry.id.at(-1) ?? ''));
      const branch = parseBranch(entry.branch);
      input.access.require('CreateTableVersion', { kind: 'table', table }, branch);
      return { table, branch, proposed: proposedManifest(entry), idempotency };
    });
    const made = await operation(commands, input.scope);
    if (made === undefined) return { versions: [] };
    const { transaction_id } = writeAnswer(input, made, {});
    return { versions: [tableVersion(made.listed)], transaction_id };
  },
});

function proposedManifest(body: Static<typeof ProposedVersion>): Proposal {
  if (Object.keys(body.metadata ?? {}).length > 0)
    throw invalidInput('metadata: this service keeps none for a version');
  const { version, manifest_path: manifestPath, manifest_size: manifestBytes, naming_scheme: naming } = body;
  return { version, manifestPath, manifestBytes, naming };
}

const tableVersion = ({ version, committedAtMs, manifestPath, manifestBytes, manifestTag }: ListedVersion) => ({
  version,
  timestamp_millis: committedAtMs,
  timestamp: new Date(committedAtMs).toISOString(),
  metadata: {},
  manifest_path: manifestPath,
  manifest_size: manifestBytes,
  e_tag: manifestTag,
});
