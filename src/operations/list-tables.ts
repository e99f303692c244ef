import type { Catalog, TableRecord } from '../catalog/port.ts';
import type { Operations } from './commands.ts';
import { visiblePage } from './visible-page.ts';

/** The tables directly in one namespace, by name. `NamespaceNotFound`. */
export const listTables =
  (catalog: Catalog): Operations['listTables'] =>
  async ({ namespace, page, includeDeclared, visible }) => {
    const { rows, next } = await visiblePage<TableRecord>(
      page,
      (at) => catalog.listTables(namespace, { ...at, includeDeclared }),
      ({ ref }) => ref.name,
      ({ ref }) => visible(ref),
    );
    return { items: rows.map(({ ref }) => ref.name), next };
  };

/** The catalog's cursor through all tables: names cannot hold the separator, so paths sort and split unambiguously. */
const fullPath = ({ ref }: TableRecord): string => [...ref.namespace, ref.name].join('\u001f');

export const listAllTables =
  (catalog: Catalog): Operations['listAllTables'] =>
  async ({ page, includeDeclared, visible }) => {
    const { rows, next } = await visiblePage<TableRecord>(
      page,
      (at) => catalog.listAllTables({ ...at, includeDeclared }),
      fullPath,
      ({ ref }) => visible(ref),
    );
    return { items: rows.map(({ ref }) => ref), next };
  };
