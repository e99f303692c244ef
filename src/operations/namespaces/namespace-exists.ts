import type { Catalog } from '../../catalog/port.ts';
import type { NamespacePath } from '../../kernel/ids.ts';
import { findNamespace } from './find-namespace.ts';

export type NamespaceExists = ReturnType<typeof namespaceExists>;

export const namespaceExists =
  ({ catalog }: { catalog: Catalog }) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<void> => {
    await findNamespace(catalog, namespace);
  };
