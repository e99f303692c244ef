/** The trash: tables that were dropped and can be brought back. Each holds its location as if it were there. */
import type { Location, TableId, TableRef } from '../../kernel/ids.ts';
import type { DroppedPageRequest, DroppedTable, TableRecord } from '../port.ts';
import { notInTrash } from '../refusals.ts';
import { boundsBelow, type CatalogDb, namespacePathOf, tablePathOf } from './catalog-db.ts';
import { releaseLocation, requireFreeName } from './creations.ts';
import { insertTable, recordOf } from './table-rows.ts';

/** The cursor is the time and the id of a table. */
export async function listDropped(
  db: CatalogDb,
  { of, endedByMs, after, limit }: DroppedPageRequest,
): Promise<readonly DroppedTable[]> {
  const [, atMs, id] = /^(\d{1,15})-([\w-]{1,64})$/.exec(after ?? '') ?? [];
  const below =
    of !== undefined && 'below' in of && of.below.length > 0 ? boundsBelow(namespacePathOf(of.below)) : undefined;
  const one = of !== undefined && 'named' in of ? of : undefined;
  const rows = await db
    .selectFrom('dropped_tables')
    .selectAll()
    .$call((query) => (below ? query.where('path', '>', below.from).where('path', '<', below.to) : query))
    .$call((query) => (one === undefined ? query : query.where('path', '=', tablePathOf(one.named))))
    .$call((query) => (one?.id === undefined ? query : query.where('id', '=', one.id)))
    .$call((query) => (endedByMs === undefined ? query : query.where('kept_until_ms', '<=', endedByMs)))
    .$call((query) =>
      id === undefined
        ? query
        : query.where((row) =>
            row.or([
              row('dropped_at_ms', '<', Number(atMs)),
              row.and([row('dropped_at_ms', '=', Number(atMs)), row('id', '>', id as TableId)]),
            ]),
          ),
    )
    .orderBy('dropped_at_ms', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    ...recordOf(row),
    droppedAtMs: row.dropped_at_ms,
    keptUntilMs: row.kept_until_ms,
    cursor: `${row.dropped_at_ms}-${row.id}`,
  }));
}

export async function undropTable(db: CatalogDb, from: TableRef, id: TableId, to: TableRef): Promise<TableRecord> {
  const row = await takeDropped(db, from, id);
  await requireFreeName(db, to);
  const record = { ...recordOf(row), ref: to };
  await insertTable(db, record);
  const path = tablePathOf(to);
  await db.updateTable('locations').set({ owner: path }).where('location', '=', record.location).execute();
  await db.updateTable('idempotency_keys').set({ table_path: path }).where('table_id', '=', id).execute();
  return record;
}

/** `keptAt` is where its files are by now: those go. Its location is never given out again. */
export async function purgeDropped(db: CatalogDb, from: TableRef, id: TableId, keptAt: Location): Promise<void> {
  const { location, path: owner } = await takeDropped(db, from, id);
  if (keptAt === location) return releaseLocation(db, location, 'discarded');
  await releaseLocation(db, location, 'retired');
  await db.insertInto('locations').values({ location: keptAt, state: 'discarded', owner }).execute();
}

async function takeDropped(db: CatalogDb, from: TableRef, id: TableId) {
  const row = await db
    .deleteFrom('dropped_tables')
    .where('id', '=', id)
    .where('path', '=', tablePathOf(from))
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) throw notInTrash(from);
  return row;
}
