import Type from 'typebox';
import type { NamespaceCatalog, NamespaceRecord } from '../../catalog/port.ts';
import { namespaceNotFound } from '../../catalog/refusals.ts';
import { jsonRoute, Nothing } from '../../endpoint/json-route.ts';
import { emptyAnswer, namespaceTarget } from '../../endpoint/route.ts';
import type { NamespacePath, Properties } from '../../kernel/ids.ts';
import { StringMap } from '../../wire/json-body.ts';

interface Deps {
  readonly catalog: NamespaceCatalog;
}

/** `NamespaceNotFound`. */
async function findNamespace(catalog: NamespaceCatalog, namespace: NamespacePath): Promise<NamespaceRecord> {
  const record = await catalog.findNamespace(namespace);
  if (record !== undefined) return record;
  throw namespaceNotFound(namespace);
}

const describeNamespace =
  ({ catalog }: Deps) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<Properties> =>
    (await findNamespace(catalog, namespace)).properties;

const namespaceExists =
  ({ catalog }: Deps) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<void> => {
    await findNamespace(catalog, namespace);
  };

export const NamespaceProperties = Type.Object({ properties: StringMap });

export const describeNamespaceRoute = jsonRoute(describeNamespace, {
  path: '/v1/namespace/:id/describe',
  target: namespaceTarget,
  action: 'DescribeNamespace',
  summary: 'Shows the properties of a namespace',
  answers: NamespaceProperties,
  body: Nothing,
  answer: async (operation, { target: namespace }) => ({ properties: await operation({ namespace }) }),
});

export const namespaceExistsRoute = jsonRoute(namespaceExists, {
  path: '/v1/namespace/:id/exists',
  target: namespaceTarget,
  action: 'NamespaceExists',
  summary: 'Says whether a namespace exists',
  answers: undefined,
  body: Nothing,
  answer: (operation, { target: namespace }) => operation({ namespace }),
  render: () => emptyAnswer,
});
