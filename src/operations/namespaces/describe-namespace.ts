import type { Catalog, NamespaceRecord } from '../../catalog/port.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { type NamespacePath, type Properties, showNamespace } from '../../kernel/ids.ts';

/** `NamespaceNotFound`. */
export async function findNamespace(catalog: Catalog, namespace: NamespacePath): Promise<NamespaceRecord> {
  const record = await catalog.findNamespace(namespace);
  if (record !== undefined) return record;
  throw new LancegateError('NamespaceNotFound', `namespace '${showNamespace(namespace)}' does not exist`);
}

export const describeNamespace =
  ({ catalog }: { catalog: Catalog }) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<Properties> =>
    (await findNamespace(catalog, namespace)).properties;

export const namespaceExists =
  ({ catalog }: { catalog: Catalog }) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<void> => {
    await findNamespace(catalog, namespace);
  };
