import Type from 'typebox';
import type { AnswerOf, NamespaceCatalog, TableCatalog } from '../../catalog/port.ts';
import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { namespaceTarget } from '../../endpoint/route.ts';
import { invalidInput, LancegateError, notTheFirstStep } from '../../kernel/errors.ts';
import type { NamespacePath, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { TableOwners } from '../../table/table-owners.ts';
import { choiceOf, parseChoice } from '../../wire/choices.ts';
import type { OperationDeps } from '../operations.ts';
import { type DropTable, dropTable } from '../tables/drop-table.ts';
import type { Visible } from '../visible-page.ts';

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

const DropNamespaceBody = Type.Object({ mode: choiceOf(dropModes), behavior: choiceOf(dropBehaviors) });

const dropTreeOf = (deps: OperationDeps) => dropNamespace(deps, dropTable(deps));

/** Clients parse the body also where nothing was there to drop, so it is never 204. */
export const dropNamespaceRoute = onceRoute('drop_namespace', dropTreeOf, {
  path: '/v1/namespace/:id/drop',
  target: namespaceTarget,
  action: 'DropNamespace',
  summary: 'Drops a namespace',
  answers: Nothing,
  body: DropNamespaceBody,
  audit: ({ behavior }) => ({ mode: parseChoice(behavior, 'behavior', dropBehaviors) }),
  answer: async (operation, { target: namespace, body }, input) => {
    const { access, context, database } = input;
    if (database.shownNamespace(namespace).length === 0) throw invalidInput('The root namespace cannot be dropped.');
    let droppedTables = 0;
    await operation({
      namespace,
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
    });
    return {};
  },
});
