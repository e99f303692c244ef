import Type from 'typebox';
import { describeVersion, type ListedVersion, listVersions } from '../../../operations/tables/list-versions.ts';
import { pageFields, Version } from '../../../wire/json-body.ts';
import { readFlag, readPage } from '../../../wire/query-parameters.ts';
import { jsonRoute } from '../../json-route.ts';
import { tableTarget } from '../../route.ts';

const ListBody = Type.Object({ descending: Type.Optional(Type.Boolean()), ...pageFields });

/**
 * Newest first, unless `descending=false`. The LanceDB SDKs ask without a limit, follow no token and expect the newest version
 * last: they get the newest page in that order.
 */
export const listVersionsRoute = jsonRoute(listVersions, {
  methods: ['POST'],
  path: '/v1/table/:id/version/list',
  target: tableTarget,
  action: 'ListTableVersions',
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
  body: Type.Object({ version: Type.Optional(Version) }),
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch, body: { version } }) => ({
    version: tableVersion(await operation({ table, branch, version })),
  }),
});

const tableVersion = ({ version, committedAtMs, manifestUri, manifestBytes }: ListedVersion) => ({
  version,
  timestamp_millis: committedAtMs,
  manifest_path: manifestUri,
  manifest_size: manifestBytes,
});
