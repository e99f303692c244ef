import type { Catalog, NamespaceRecord } from '../catalog/port.ts';
import { LancegateError, notTheFirstStep } from '../kernel/errors.ts';
import { type NamespacePath, showNamespace, type TableRef } from '../kernel/ids.ts';
import type { Operations } from './commands.ts';
import { visiblePage } from './visible-page.ts';

export const createNamespace =
  (catalog: Catalog): Operations['createNamespace'] =>
  async ({ namespace, mode, properties }) => {
    const existing = await catalog.findNamespace(namespace);
    if (existing === undefined) return createOrFind(catalog, namespace, mode === 'create', properties);
    switch (mode) {
      case 'create':
        throw new LancegateError('NamespaceAlreadyExists', `namespace '${showNamespace(namespace)}' already exists`);
      case 'exist_ok':
        return existing.properties;
      case 'overwrite':
        return (await catalog.updateNamespace(namespace, properties)).properties;
    }
  };

/** Of two that create one namespace at once, the later finds it there; only mode `create` minds. */
async function createOrFind(
  catalog: Catalog,
  namespace: NamespacePath,
  mustBeNew: boolean,
  properties: NamespaceRecord['properties'],
): Promise<NamespaceRecord['properties']> {
  try {
    return (await catalog.createNamespace(namespace, properties)).properties;
  } catch (error) {
    const lostRace = error instanceof LancegateError && error.kind === 'NamespaceAlreadyExists';
    if (mustBeNew || !lostRace) throw error;
    return (await find(catalog, namespace)).properties;
  }
}

export const describeNamespace =
  (catalog: Catalog): Operations['describeNamespace'] =>
  async ({ namespace }) =>
    (await find(catalog, namespace)).properties;

export const namespaceExists =
  (catalog: Catalog): Operations['namespaceExists'] =>
  async ({ namespace }) => {
    await find(catalog, namespace);
  };

export const listNamespaces =
  (catalog: Catalog): Operations['listNamespaces'] =>
  async ({ parent, page, visible }) => {
    const { rows, next } = await visiblePage(
      page,
      (at) => catalog.listNamespaces(parent, at),
      (name) => name,
      (name) => visible([...parent, name]),
    );
    return { items: rows, next };
  };

export const dropNamespace =
  (catalog: Catalog, dropTable: Operations['dropTable']): Operations['dropNamespace'] =>
  async ({ namespace, mode, behavior, mayDrop, dropped }) => {
    const existing = await catalog.findNamespace(namespace);
    if (existing === undefined && mode === 'skip') return;
    const isRoot = namespace.length === 0; // refused, and before anything in it is dropped
    if (existing === undefined || behavior === 'restrict' || isRoot) return catalog.dropNamespace(namespace);
    const namespaces = await catalog.namespacesUnder(namespace);
    const tables = (await Promise.all(namespaces.map((path) => tablesIn(catalog, path)))).flat();
    const allowed =
      tables.every((table) => mayDrop({ table })) && namespaces.every((path) => mayDrop({ namespace: path }));
    if (!allowed) {
      throw new LancegateError('PermissionDenied', 'not everything inside the namespace may be dropped; nothing was');
    }
    const steps = [
      ...tables.map((table) => async () => {
        await dropTable({ table });
        dropped(table);
      }),
      ...namespaces.map((path) => () => catalog.dropNamespace(path)),
    ];
    for (const [index, step] of steps.entries()) await (index === 0 ? step() : step().catch(laterStep));
  };

/** What another request has dropped meanwhile is gone as well; what it has made is not, and a part has been dropped. */
function laterStep(error: unknown): void {
  const kind = error instanceof LancegateError ? error.kind : undefined;
  if (kind === 'TableNotFound' || kind === 'NamespaceNotFound') return;
  if (kind !== 'NamespaceNotEmpty') notTheFirstStep(error);
  throw new LancegateError('Internal', 'the namespace was filled while it was dropped', { cause: error });
}

async function tablesIn(catalog: Catalog, namespace: NamespacePath): Promise<readonly TableRef[]> {
  const limit = 1000;
  const tables: TableRef[] = [];
  for (;;) {
    const page = await catalog.listTables(namespace, { after: tables.at(-1)?.name, limit, includeDeclared: true });
    tables.push(...page.map(({ ref }) => ref));
    if (page.length < limit) return tables;
  }
}

async function find(catalog: Catalog, namespace: NamespacePath): Promise<NamespaceRecord> {
  const record = await catalog.findNamespace(namespace);
  if (record !== undefined) return record;
  throw new LancegateError('NamespaceNotFound', `namespace '${showNamespace(namespace)}' does not exist`);
}
