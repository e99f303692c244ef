import Type from 'typebox';
import type { TableCatalog } from '../../catalog/port.ts';
import { jsonRoute, Nothing } from '../../endpoint/json-route.ts';
import { namespaceTarget, type RouteInput, rootTarget } from '../../endpoint/route.ts';
import { type NamespacePath, showTable, type TableRef } from '../../kernel/ids.ts';
import { nextPage, pageFields } from '../../wire/json-body.ts';
import { flag, type Page, readFlag, readPage } from '../../wire/query-parameters.ts';
import { type Listing, type Visible, visiblePage } from '../visible-page.ts';

interface ListTablesCommand {
  readonly namespace: NamespacePath;
  /** The tables of all namespaces in it are listed, too. */
  readonly includeBelow: boolean;
  readonly page: Page;
  readonly includeDeclared: boolean;
  readonly visible: Visible<TableRef>;
}

/** Lists the tables directly in one namespace, or all, by name. `NamespaceNotFound`. */
const listTables =
  ({ catalog }: { catalog: TableCatalog }) =>
  async ({ namespace, page, visible, ...which }: ListTablesCommand): Promise<Listing<TableRef>> => {
    const { items, next } = await visiblePage(
      page,
      (at) => catalog.listTables(namespace, { ...at, ...which }),
      ({ cursor }) => cursor,
      ({ ref }) => visible(ref),
    );
    return { items: items.map(({ ref }) => ref), next };
  };

const TableNames = Type.Object({ tables: Type.Array(Type.String()), ...nextPage });

const listingParameters = {
  ...pageFields,
  include_declared: flag('Whether names without rows and columns are listed; they are if absent.'),
};

const readListing = ({ query, access }: RouteInput<keyof typeof listingParameters>) => ({
  page: readPage(query),
  includeDeclared: readFlag(query, 'include_declared') ?? true,
  visible: (table: TableRef): boolean => access.allows('DescribeTable', { kind: 'table', table }),
});

export const listTablesRoute = jsonRoute(listTables, {
  methods: ['GET'],
  path: '/v1/namespace/:id/table/list',
  target: namespaceTarget,
  action: 'ListTables',
  summary: 'Lists the tables of a namespace',
  query: listingParameters,
  answers: TableNames,
  body: Nothing,
  answer: async (operation, { target: namespace }, input) => {
    if (namespace.length === 0) input.database.requireNamed();
    const { items, next } = await operation({ namespace, includeBelow: false, ...readListing(input) });
    return { tables: items.map(({ name }) => name), page_token: next };
  },
});

/** With a trailing slash it is the LanceDB SDK, which means the root's own tables; without, all tables by full id. */
export const listAllTablesRoute = jsonRoute(listTables, {
  methods: ['GET'],
  path: '/v1/table',
  target: rootTarget,
  action: 'ListTables',
  summary: 'Lists all tables, by their full identifiers',
  operationId: 'ListAllTables',
  query: listingParameters,
  answers: TableNames,
  body: Nothing,
  answer: async (operation, { target: namespace, delimiter }, input) => {
    const { database, hasTrailingSlash } = input;
    if (hasTrailingSlash) database.requireNamed();
    const { items, next } = await operation({ namespace, includeBelow: !hasTrailingSlash, ...readListing(input) });
    return { tables: items.map((table) => showTable(database.shown(table), delimiter)), page_token: next };
  },
});
