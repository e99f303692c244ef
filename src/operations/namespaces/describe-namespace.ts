import type { Catalog } from '../../catalog/port.ts';
import type { NamespacePath, Properties } from '../../kernel/ids.ts';
import { findNamespace } from './find-namespace.ts';

export type DescribeNamespace = ReturnType<typeof describeNamespace>;

export const describeNamespace =
  ({ catalog }: { catalog: Catalog }) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<Properties> =>
    (await findNamespace(catalog, namespace)).properties;
