import Type from 'typebox';
import type { DroppedTable, TrashCatalog } from '../../catalog/port.ts';
import { jsonRoute, Nothing } from '../../endpoint/json-route.ts';
import { namespaceTarget, tableTarget } from '../../endpoint/route.ts';
import type { NamespacePath, TableRef } from '../../kernel/ids.ts';
import { nextPage, pageFields, StringMap } from '../../wire/json-body.ts';
import { type Page, readPage } from '../../wire/query-parameters.ts';
import { type Listing, type Visible, visiblePage } from '../visible-page.ts';

interface ListDroppedCommand {
  readonly namespace: NamespacePath;
  readonly page: Page;
  readonly visible: Visible<TableRef>;
}

/** Lists what is in the trash of a namespace and of all below it, the newest first. They may be gone by now. */
const listDroppedTables =
  ({ catalog }: { readonly catalog: TrashCatalog }) =>
  ({ namespace, page, visible }: ListDroppedCommand): Promise<Listing<DroppedTable>> =>
    visiblePage(
      page,
      (at) => catalog.droppedTables({ of: { below: namespace }, ...at }),
      ({ cursor }) => cursor,
      ({ ref }) => visible(ref),
    );

const Dropped = Type.Object({
  id: Type.Array(Type.String()),
  dropped_id: Type.String(),
  dropped_at: Type.String(),
  kept_until: Type.String(),
  properties: StringMap,
});

export const listDroppedTablesRoute = jsonRoute(listDroppedTables, {
  methods: ['GET'],
  path: '/v1/namespace/:id/trash/list',
  target: namespaceTarget,
  action: 'ListTables',
  operationId: 'ListDroppedTables',
  summary: 'Lists the dropped tables of a namespace, and of those below it, that can be brought back',
  query: pageFields,
  answers: Type.Object({ tables: Type.Array(Dropped), ...nextPage }),
  body: Nothing,
  answer: async (operation, { target: namespace }, { query, access, database }) => {
    if (namespace.length === 0) database.requireNamed();
    const visible = (table: TableRef): boolean => access.allows('DescribeTable', { kind: 'table', table });
    const { items, next } = await operation({ namespace, page: readPage(query), visible });
    const tables = items.map(({ ref, id, droppedAtMs, keptUntilMs, properties }) => ({
      id: tableTarget.parts(ref, database),
      dropped_id: id,
      dropped_at: new Date(droppedAtMs).toISOString(),
      kept_until: new Date(keptUntilMs).toISOString(),
      properties,
    }));
    return { tables, page_token: next };
  },
});
