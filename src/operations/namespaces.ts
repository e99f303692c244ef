/** Namespaces: create, describe, list and drop. */
import Type from 'typebox';
import type { AnswerOf, NamespaceCatalog, NamespaceRecord, TableCatalog } from '../catalog/port.ts';
import { namespaceAlreadyExists, namespaceNotFound } from '../catalog/refusals.ts';
import { jsonRoute, Nothing, onceAnswer } from '../endpoint/json-route.ts';
import { emptyAnswer, namespaceTarget } from '../endpoint/route.ts';
import { answeredBy, answeredOnce } from '../idempotency/idempotency.ts';
import { invalidInput, LancegateError, notTheFirstStep } from '../kernel/errors.ts';
import type { NamespacePath, ObjectName, Properties, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { TableOwners } from '../table/table-owners.ts';
import { choiceOf, createModes, parseChoice } from '../wire/choices.ts';
import { nextPage, pageFields, StringMap } from '../wire/json-body.ts';
import { type Page, readPage } from '../wire/query-parameters.ts';
import type { OperationDeps } from './operations.ts';
import { type DropTable, dropTable } from './tables/drop-table.ts';
import { type Listing, type Visible, visiblePage } from './visible-page.ts';

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

const describeNamespace =
  ({ catalog }: Deps) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<Properties> =>
    (await findNamespace(catalog, namespace)).properties;

const namespaceExists =
  ({ catalog }: Deps) =>
  async ({ namespace }: { namespace: NamespacePath }): Promise<void> => {
    await findNamespace(catalog, namespace);
  };

interface ListNamespacesCommand {
  readonly parent: NamespacePath;
  readonly page: Page;
  readonly visible: Visible<NamespacePath>;
}

const listNamespaces =
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

const dropModes = ['fail', 'skip'] as const;
export const dropBehaviors = ['restrict', 'cascade'] as const;

const CreateNamespaceBody = Type.Object({ mode: choiceOf(createModes), properties: Type.Optional(StringMap) });
const DropNamespaceBody = Type.Object({ mode: choiceOf(dropModes), behavior: choiceOf(dropBehaviors) });

const NamespaceProperties = Type.Object({ properties: StringMap });
const Namespaces = Type.Object({ namespaces: Type.Array(Type.String()), ...nextPage });

export const createNamespaceRoute = jsonRoute(answeredOnce('create_namespace', createNamespace), {
  methods: ['POST'],
  path: '/v1/namespace/:id/create',
  target: namespaceTarget,
  keyedBy: 'Idempotency-Key',
  action: 'CreateNamespace',
  summary: 'Creates a namespace',
  answers: NamespaceProperties,
  body: CreateNamespaceBody,
  audit: ({ mode }) => ({ mode: parseChoice(mode, 'mode', createModes) }),
  answer: async (operation, { target: namespace, body, idempotency }, input) => {
    const mode = parseChoice(body.mode, 'mode', createModes);
    const requireDescribe = () => input.access.require('DescribeNamespace', { kind: 'namespace', path: namespace });
    const command = { namespace, mode, properties: body.properties ?? {}, requireDescribe, idempotency };
    return { properties: onceAnswer(input, await operation(command, input.scope)) };
  },
});

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

export const describeNamespaceRoute = jsonRoute(describeNamespace, {
  methods: ['POST'],
  path: '/v1/namespace/:id/describe',
  target: namespaceTarget,
  action: 'DescribeNamespace',
  summary: 'Shows the properties of a namespace',
  answers: NamespaceProperties,
  body: Nothing,
  answer: async (operation, { target: namespace }) => ({ properties: await operation({ namespace }) }),
});

export const namespaceExistsRoute = jsonRoute(namespaceExists, {
  methods: ['POST'],
  path: '/v1/namespace/:id/exists',
  target: namespaceTarget,
  action: 'NamespaceExists',
  summary: 'Says whether a namespace exists',
  answers: undefined,
  body: Nothing,
  answer: (operation, { target: namespace }) => operation({ namespace }),
  render: () => emptyAnswer,
});

const dropTreeOf = (deps: OperationDeps) => dropNamespace(deps, dropTable(deps));

/** Clients parse the body also where nothing was there to drop, so it is never 204. */
export const dropNamespaceRoute = jsonRoute(answeredOnce('drop_namespace', dropTreeOf), {
  methods: ['POST'],
  path: '/v1/namespace/:id/drop',
  target: namespaceTarget,
  keyedBy: 'Idempotency-Key',
  action: 'DropNamespace',
  summary: 'Drops a namespace',
  answers: Nothing,
  body: DropNamespaceBody,
  audit: ({ behavior }) => ({ mode: parseChoice(behavior, 'behavior', dropBehaviors) }),
  answer: async (operation, { target: namespace, body, idempotency }, input) => {
    const { access, context, database } = input;
    if (database.shownNamespace(namespace).length === 0) throw invalidInput('The root namespace cannot be dropped.');
    let droppedTables = 0;
    const command: Parameters<typeof operation>[0] = {
      namespace,
      idempotency,
      mode: parseChoice(body.mode, 'mode', dropModes),
      behavior: parseChoice(body.behavior, 'behavior', dropBehaviors),
      mayDrop: (item) => {
        if ('namespace' in item) return access.allows('DropNamespace', { kind: 'namespace', path: item.namespace });
        return access.allows('DropTable', { kind: 'table', table: item.table });
      },
      dropped: () => {
        droppedTables += 1;
        context.note({ droppedTables });
      },
    };
    onceAnswer(input, await operation(command, input.scope));
    return {};
  },
});
