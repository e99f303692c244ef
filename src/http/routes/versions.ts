import { listVersions } from '../../operations/tables/list-versions.ts';
import { readFlag, readPage } from '../../wire/query-parameters.ts';
import { jsonRoute, Nothing } from '../json-route.ts';
import { tableTarget } from '../route.ts';

/**
 * Newest first, unless `descending=false`. The LanceDB SDKs ask without a limit, follow no token and expect the newest version
 * last: they get the newest page in that order.
 */
export const listVersionsRoute = jsonRoute(listVersions, {
  methods: ['POST'],
  path: '/v1/table/:id/version/list',
  target: tableTarget,
  action: 'ListTableVersions',
  body: Nothing,
  branches: (_, branch) => [branch],
  answer: async (operation, { target: table, branch }, { query, hasTrailingSlash }) => {
    const descending = readFlag(query, 'descending');
    const order = descending === false ? 'ascending' : 'descending';
    const { items, next } = await operation({ table, branch, page: readPage(query), order });
    const shown = hasTrailingSlash && descending === undefined ? items.toReversed() : items;
    const versions = shown.map(({ version, committedAtMs, manifestUri, manifestBytes }) => ({
      version,
      timestamp_millis: committedAtMs,
      manifest_path: manifestUri,
      manifest_size: manifestBytes,
    }));
    return { versions, page_token: next };
  },
});
