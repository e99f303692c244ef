import Type from 'typebox';
import { deleteVersions } from '../../../operations/tables/delete-versions.ts';
import { describeVersion, type ListedVersion, listVersions } from '../../../operations/tables/list-versions.ts';
import { Count, nextPage, pageFields, Version } from '../../../wire/json-body.ts';
import { Flag, readFlag, readPage } from '../../../wire/query-parameters.ts';
import { jsonRoute } from '../../json-route.ts';
import { tableTarget } from '../../route.ts';

const ListBody = Type.Object({ descending: Type.Optional(Type.Boolean()), ...pageFields });

const TableVersion = Type.Object({
  version: Version,
  timestamp_millis: Count,
  manifest_path: Type.String(),
  manifest_size: Type.Optional(Count),
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
export const deleteVersionsRoute = jsonRoute(deleteVersions, {
  methods: ['POST'],
  path: '/v1/table/:id/version/delete',
  target: tableTarget,
  needsOwner: true,
  action: 'BatchDeleteTableVersions',
  summary: 'Removes versions of a table that nothing needs, before their retention ends',
  answers: Type.Object({ deleted_count: Count }),
  body: Type.Object({ ranges: Type.Array(Range, { maxItems: mostRanges }) }),
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body }, { scope, context }) => {
    const ranges = body.ranges.map(({ start_version: from, end_version: end }) => ({
      from,
      before: end === -1 ? Number.POSITIVE_INFINITY : end,
    }));
    const deletedVersions = await operation({ table, branch, ranges }, scope);
    context.note({ deletedVersions });
    return { deleted_count: deletedVersions };
  },
});

const tableVersion = ({ version, committedAtMs, manifestUri, manifestBytes }: ListedVersion) => ({
  version,
  timestamp_millis: committedAtMs,
  manifest_path: manifestUri,
  manifest_size: manifestBytes,
});
