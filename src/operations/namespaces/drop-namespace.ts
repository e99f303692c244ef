import type { Catalog } from '../../catalog/port.ts';
import { LancegateError, notTheFirstStep } from '../../kernel/errors.ts';
import type { NamespacePath, TableRef } from '../../kernel/ids.ts';
import type { DropTable } from '../tables/drop-table.ts';
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
  ({ catalog }: { catalog: Catalog }, dropTable: DropTable) =>
  async ({ namespace, mode, behavior, mayDrop, dropped }: DropNamespaceCommand): Promise<void> => {
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
