import Type from 'typebox';
import type { NamespaceCatalog } from '../../catalog/port.ts';
import { jsonRoute, Nothing } from '../../endpoint/json-route.ts';
import { namespaceTarget } from '../../endpoint/route.ts';
import type { NamespacePath, ObjectName } from '../../kernel/ids.ts';
import { nextPage, pageFields } from '../../wire/json-body.ts';
import { type Page, readPage } from '../../wire/query-parameters.ts';
import { type Listing, type Visible, visiblePage } from '../visible-page.ts';

interface ListNamespacesCommand {
  readonly parent: NamespacePath;
  readonly page: Page;
  readonly visible: Visible<NamespacePath>;
}

const listNamespaces =
  ({ catalog }: { readonly catalog: NamespaceCatalog }) =>
  ({ parent, page, visible }: ListNamespacesCommand): Promise<Listing<ObjectName>> =>
    visiblePage(
      page,
      (at) => catalog.listNamespaces(parent, at),
      (name) => name,
      (name) => visible([...parent, name]),
    );

const Namespaces = Type.Object({ namespaces: Type.Array(Type.String()), ...nextPage });

export const listNamespacesRoute = jsonRoute(listNamespaces, {
  methods: ['GET'],
  path: '/v1/namespace/:id/list',
  target: namespaceTarget,
  action: 'ListNamespaces',
  summary: 'Lists the namespaces of a namespace',
  query: pageFields,
  answers: Namespaces,
  body: Nothing,
  answer: async (operation, { target: parent }, { query, access }) => {
    const { items, next } = await operation({
      parent,
      page: readPage(query),
      visible: (path) => access.allows('DescribeNamespace', { kind: 'namespace', path }),
    });
    return { namespaces: items, page_token: next };
  },
});
