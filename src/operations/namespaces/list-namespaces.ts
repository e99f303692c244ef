import type { Catalog } from '../../catalog/port.ts';
import type { NamespacePath, ObjectName } from '../../kernel/ids.ts';
import { type Listing, type Page, type Visible, visiblePage } from '../visible-page.ts';

interface ListNamespacesCommand {
  readonly parent: NamespacePath;
  readonly page: Page;
  readonly visible: Visible<NamespacePath>;
}

export const listNamespaces =
  ({ catalog }: { catalog: Catalog }) =>
  async ({ parent, page, visible }: ListNamespacesCommand): Promise<Listing<ObjectName>> => {
    const { rows, next } = await visiblePage(
      page,
      (at) => catalog.listNamespaces(parent, at),
      (name) => name,
      (name) => visible([...parent, name]),
    );
    return { items: rows, next };
  };
