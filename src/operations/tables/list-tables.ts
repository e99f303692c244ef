import type { TableCatalog } from '../../catalog/port.ts';
import type { NamespacePath, TableRef } from '../../kernel/ids.ts';
import { type Listing, type Page, type Visible, visiblePage } from '../visible-page.ts';

interface ListTablesCommand {
  /** `below`: also the tables of all namespaces in it. */
  readonly namespace: NamespacePath | { readonly below: NamespacePath };
  readonly page: Page;
  readonly includeDeclared: boolean;
  readonly visible: Visible<TableRef>;
}

/** The tables directly in one namespace, or all, by name. `NamespaceNotFound`. */
export const listTables =
  ({ catalog }: { catalog: TableCatalog }) =>
  async ({ namespace, page, includeDeclared, visible }: ListTablesCommand): Promise<Listing<TableRef>> => {
    const { items, next } = await visiblePage(
      page,
      (at) =>
        'below' in namespace
          ? catalog.listAllTables(namespace.below, { ...at, includeDeclared })
          : catalog.listTables(namespace, { ...at, includeDeclared }),
      ({ cursor }) => cursor,
      ({ ref }) => visible(ref),
    );
    return { items: items.map(({ ref }) => ref), next };
  };
