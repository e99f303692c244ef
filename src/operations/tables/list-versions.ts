import Type from 'typebox';
import type { TableRecord } from '../../catalog/port.ts';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import type { StoredVersion } from '../../engine/port/dataset.ts';
import type { Locations } from '../../engine/port/engine.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import { requireCreated, type TableAccess } from '../../table/table-access.ts';
import { Count, nextPage, pageFields, StringMap, Version } from '../../wire/json-body.ts';
import { flag, type Page, readFlag, readPage } from '../../wire/query-parameters.ts';
import type { Listing } from '../visible-page.ts';

interface ListVersionsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly page: Page;
  readonly order: 'ascending' | 'descending';
}

export interface ListedVersion {
  readonly version: number;
  readonly committedAtMs: number;
  /** It is what `Locations.objectPathOf` gives: programs of Lance open it, or name a manifest so in a request. */
  readonly manifestPath: string;
  readonly manifestBytes: number | undefined;
  readonly manifestTag?: string;
}

/**
 * Lists the versions of a branch that can still be read. Reads one manifest for each that it lists, so a page costs the same in
 * a long history.
 */
const listVersions =
  ({ access, engine }: { access: TableAccess; engine: Locations }) =>
  async ({ table, branch, page, order }: ListVersionsCommand): Promise<Listing<ListedVersion>> => {
    const after = page.after === undefined ? undefined : versionOf(page.after);
    const record = await access.find(table);
    // What is to become its first version is proposed after such a look.
    if (record.state === 'declared' && branch === undefined) return { items: [], next: undefined };
    requireCreated(record);
    const request = { after, limit: page.limit + 1, order };
    const found = await access.read(record, branch, undefined, (dataset) => dataset.versionPage(request));
    const items = found.slice(0, page.limit).map((stored) => listed(engine, record, stored));
    return { items, next: found.length > page.limit ? items.at(-1)?.version.toString() : undefined };
  };

const listed = (
  engine: Locations,
  { location }: TableRecord,
  { manifestPath, ...facts }: StoredVersion,
): ListedVersion => ({ ...facts, manifestPath: engine.objectPathOf(location, manifestPath) });

interface DescribeVersionCommand extends Pick<ListVersionsCommand, 'table' | 'branch'> {
  /** undefined is the newest. */
  readonly version: number | undefined;
}

/** Describes it as it is listed. `TableVersionNotFound`. */
export const describeVersion =
  ({ access, engine }: { access: TableAccess; engine: Locations }) =>
  async ({ table, branch, version }: DescribeVersionCommand): Promise<ListedVersion> => {
    const record = await access.findCreated(table);
    const after = version === undefined ? undefined : version - 1;
    const order = version === undefined ? 'descending' : 'ascending';
    const page = { after, limit: 1, order } as const;
    const found = await access.read(record, branch, undefined, async (dataset) => {
      const [first] = await dataset.versionPage(page);
      if (version === undefined || first === undefined) return first;
      return first.version === version && (await dataset.isWhole(version)) ? first : undefined;
    });
    if (found !== undefined) return listed(engine, record, found);
    throw new LancegateError('TableVersionNotFound', `table '${showTable(table)}' has no version ${version}`);
  };

function versionOf(token: string): number {
  if (/^\d{1,15}$/.test(token)) return Number(token);
  throw invalidInput('page_token: it is not one that a listing of versions returned');
}

const ListBody = Type.Object({ descending: Type.Optional(Type.Boolean()), ...pageFields });

export const TableVersion = Type.Object({
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
 * The newest comes first, unless `descending=false`. The LanceDB SDKs ask without a limit, follow no token and expect the
 * newest version last: they get the newest page in that order.
 */
export const listVersionsRoute = jsonRoute(listVersions, {
  path: '/v1/table/:id/version/list',
  target: tableTarget,
  action: 'ListTableVersions',
  summary: 'Lists the versions of a table',
  query: { ...pageFields, descending: flag('Whether the newest comes first.') },
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

export const tableVersion = ({ version, committedAtMs, manifestPath, manifestBytes, manifestTag }: ListedVersion) => ({
  version,
  timestamp_millis: committedAtMs,
  timestamp: new Date(committedAtMs).toISOString(),
  metadata: {},
  manifest_path: manifestPath,
  manifest_size: manifestBytes,
  e_tag: manifestTag,
});
