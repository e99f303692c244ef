/** Namespaces: create, describe, list and drop. */
import type { AnswerOf, NamespaceCatalog, NamespaceRecord, TableCatalog } from '../catalog/port.ts';
import { namespaceAlreadyExists, namespaceNotFound } from '../catalog/refusals.ts';
import { answeredBy } from '../idempotency/idempotency.ts';
import { LancegateError, notTheFirstStep } from '../kernel/errors.ts';
import type { NamespacePath, ObjectName, Properties, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { TableOwners } from '../table/table-owners.ts';
import type { DropTable } from './tables/drop-table.ts';
import { type Listing, type Page, type Visible, visiblePage } from './visible-page.ts';

interface Deps {
  readonly catalog: NamespaceCatalog;
}

interface CreateNamespaceCommand {
  readonly namespace: NamespacePath;
  /** `exist_ok` answers the existing properties; `overwrite` replaces them and keeps what is inside. */
  readonly mode: 'create' | 'exist_ok' | 'overwrite';
  readonly properties: Properties;
  /** `PermissionDenied`. Called where `exist_ok` finds a namespace: the answer describes one that somebody else may have made. */
  readonly requireDescribe: () => void;
}

export const createNamespace =
  ({ catalog }: Deps) =>
  async (
    { namespace, mode, properties, requireDescribe }: CreateNamespaceCommand,
    _scope?: RequestScope,
    answered?: AnswerOf<Properties>,
  ): Promise<Properties> => {
    const existing = await catalog.findNamespace(namespace);
    const answer = answeredBy(answered, propertiesOf);
    if (existing === undefined && mode === 'create') {
      return propertiesOf(await catalog.createNamespace(namespace, properties, answer));
    }
    if (existing === undefined) return createOrFind(catalog, namespace, properties, requireDescribe);
    switch (mode) {
      case 'create':
        throw namespaceAlreadyExists(namespace);
      case 'exist_ok':
        requireDescribe();
        return existing.properties;
      case 'overwrite':
        return propertiesOf(await catalog.updateNamespace(namespace, properties, answer));
    }
  };

const propertiesOf = ({ properties }: NamespaceRecord): Properties => properties;

/** Of two that create one namespace at once, the later finds it there. Only mode `create` minds. */
async function createOrFind(
  catalog: NamespaceCatalog,
  namespace: NamespacePath,
  properties: Properties,
  requireDescribe: () => void,
): Promise<Properties> {
  try {
    return (await catalog.createNamespace(namespace, properties)).properties;
  } catch (error) {
    const lostRace = error instanceof LancegateError && error.kind === 'NamespaceAlreadyExists';
    if (!lostRace) throw error;
    requireDescribe();
    return (await findNamespace(catalog, namespace)).properties;
  }
}

/** `NamespaceNotFound`. */
async function findNamespace(catalog: NamespaceCatalog, namespace: NamespacePath): Promise<NamespaceRecord> {
  const record = await catalog.findNamespace(namespace);
  if (record !== undefined) return record;
  throw namespaceNotFound(namespace);
}

export const describeNamespace =
  ({ catalog }: Deps) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<Properties> =>
    (await findNamespace(catalog, namespace)).properties;

export const namespaceExists =
  ({ catalog }: Deps) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<void> => {
    await findNamespace(catalog, namespace);
  };

interface ListNamespacesCommand {
  readonly parent: NamespacePath;
  readonly page: Page;
  readonly visible: Visible<NamespacePath>;
}

export const listNamespaces =
  ({ catalog }: Deps) =>
  ({ parent, page, visible }: ListNamespacesCommand): Promise<Listing<ObjectName>> =>
    visiblePage(
      page,
      (at) => catalog.listNamespaces(parent, at),
      (name) => name,
      (name) => visible([...parent, name]),
    );

interface DropNamespaceCommand {
  readonly namespace: NamespacePath;
  /** `skip` makes a missing namespace no error. */
  readonly mode: 'fail' | 'skip';
  readonly behavior: 'restrict' | 'cascade';
  /**
   * With `cascade`, asked for every table and namespace inside before anything is dropped; one refusal refuses the whole with
   * `PermissionDenied`.
   */
  readonly mayDrop: Visible<{ readonly table: TableRef } | { readonly namespace: NamespacePath }>;
  /** Called for each table that is gone, also where a later one cannot be dropped. */
  readonly dropped: (table: TableRef) => void;
}

export const dropNamespace =
  (
    {
      catalog,
      owners,
    }: { readonly catalog: NamespaceCatalog & TableCatalog; readonly owners: Pick<TableOwners, 'acquire'> },
    dropTable: DropTable,
  ) =>
  async (
    { namespace, mode, behavior, mayDrop, dropped }: DropNamespaceCommand,
    { signal }: Pick<RequestScope, 'signal'>,
    answered?: AnswerOf<void>,
  ): Promise<void> => {
    const existing = await catalog.findNamespace(namespace);
    if (existing === undefined && mode === 'skip') return;
    const isRoot = namespace.length === 0; // refused, and before anything in it is dropped
    if (existing === undefined || behavior === 'restrict' || isRoot) return catalog.dropNamespace(namespace, answered);
    const namespaces = await catalog.namespacesUnder(namespace);
    const tables = (await Promise.all(namespaces.map((path) => tablesIn(catalog, path)))).flat();
    const allowed =
      tables.every((table) => mayDrop({ table })) && namespaces.every((path) => mayDrop({ namespace: path }));
    if (!allowed) {
      throw new LancegateError('PermissionDenied', 'not everything inside the namespace may be dropped; nothing was');
    }
    using _tables = await owners.acquire(tables, signal);
    const steps = [
      ...tables.map((table) => async () => {
        await dropTable({ table });
        dropped(table);
      }),
      ...namespaces.map((path) => () => catalog.dropNamespace(path)),
    ];
    for (const [index, step] of steps.entries()) await (index === 0 ? step() : step().catch(laterStep));
  };

/** What another request has dropped is gone as well; what it has made is not, and a part has been dropped. */
function laterStep(error: unknown): void {
  const kind = error instanceof LancegateError ? error.kind : undefined;
  if (kind === 'TableNotFound' || kind === 'NamespaceNotFound') return;
  if (kind === 'WriterMoved') {
    throw new LancegateError('Internal', 'another replica took over a table when others were dropped', {
      cause: error,
    });
  }
  if (kind !== 'NamespaceNotEmpty') notTheFirstStep(error);
  throw new LancegateError('Internal', 'the namespace was filled while it was dropped', { cause: error });
}

async function tablesIn(catalog: TableCatalog, namespace: NamespacePath): Promise<readonly TableRef[]> {
  const limit = 1000;
  const tables: TableRef[] = [];
  let after: string | undefined;
  do {
    const page = await catalog.listTables(namespace, { after, limit, includeDeclared: true });
    tables.push(...page.map(({ ref }) => ref));
    after = page.length < limit ? undefined : page.at(-1)?.cursor;
  } while (after !== undefined);
  return tables;
}
