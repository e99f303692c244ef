/** The end of what is in the trash: a client asks for it, or its time has passed. */
import Type from 'typebox';
import type { DroppedTable, TrashCatalog } from '../../catalog/port.ts';
import { notInTrash } from '../../catalog/refusals.ts';
import type { TableMaker } from '../../create/table-maker.ts';
import { onceRoute } from '../../endpoint/json-route.ts';
import { tableTarget } from '../../endpoint/route.ts';
import { type Clock, repeat } from '../../kernel/clock.ts';
import { type Location, showTable, type TableId, type TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import type { TableOwners } from '../../table/table-owners.ts';
import type { Trash } from '../../table/trash.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { droppedId, readDroppedId } from './undrop-table.ts';

interface Deps {
  readonly catalog: TrashCatalog;
  readonly maker: TableMaker;
  readonly locks: TableLocks;
  readonly trash: Trash;
}

interface PurgeCommand {
  readonly table: TableRef;
  /** All of this name where this is undefined. */
  readonly id: TableId | undefined;
}

/** Removes dropped tables from the trash, and their files. */
const purgeDroppedTables =
  (deps: Deps) =>
  async ({ table, id }: PurgeCommand, { signal }: RequestScope): Promise<{ readonly purged: readonly TableId[] }> => {
    const purged: TableId[] = [];
    for (;;) {
      const dropped = await deps.trash.find(table, id);
      if (dropped === undefined) break;
      signal.throwIfAborted();
      if (await purge(deps, dropped)) purged.push(dropped.id);
    }
    if (purged.length === 0) throw notInTrash(table);
    return { purged };
  };

/** False where it has come back until the lock was free: its files are a table's then. They go without the lock. */
async function purge({ catalog, maker, locks, trash }: Deps, { ref, id }: DroppedTable): Promise<boolean> {
  const leave = await locks.lockExclusive(ref, neverAborts);
  let files: Location;
  try {
    const dropped = await trash.find(ref, id);
    if (dropped === undefined) return false;
    files = await trash.filesOf(dropped);
    await catalog.purgeDropped(ref, id, files);
  } finally {
    leave();
  }
  await maker.discard({ ref, location: files });
  return true;
}

/**
 * Purges each minute what was to be kept until now, of names that this process owns or that no process does. Returns how to stop it,
 * which waits for the purge under way.
 */
export function keepPurging(
  parts: Deps & {
    readonly owners: Pick<TableOwners, 'ownerOf'>;
    readonly clock: Clock;
    readonly logger: Logger;
  },
): () => Promise<void> {
  return repeat(parts.clock, 0, async (stopping) => {
    await purgeEnded(parts, stopping);
    return 60_000;
  });
}

/** For a disk that is nearly full. False where the trash has nothing of this process's names any more. */
export const purgeOldest = (parts: Parameters<typeof keepPurging>[0]) => async (): Promise<boolean> => {
  const { trash, logger } = parts;
  let oldest: DroppedTable | undefined;
  for await (const dropped of trash.all()) if (await isOwn(parts, dropped)) oldest = dropped;
  if (oldest === undefined) return false;
  if (!(await purge(parts, oldest))) return true; // another one is the oldest now
  const fields = { table: showTable(oldest.ref), droppedId: oldest.id };
  logger.warn(fields, 'purged the oldest of the dropped tables: the disk is nearly full');
  return true;
};

const isOwn = async ({ owners }: Parameters<typeof keepPurging>[0], { ref }: DroppedTable): Promise<boolean> =>
  (await owners.ownerOf(ref, { mustClaim: false })).kind === 'self';

/** Never rejects. */
async function purgeEnded(parts: Parameters<typeof keepPurging>[0], stopping: AbortSignal): Promise<void> {
  const { trash, logger } = parts;
  try {
    for await (const dropped of trash.ended()) {
      if (stopping.aborted) return;
      if (!(await isOwn(parts, dropped))) continue;
      if (!(await purge(parts, dropped))) continue;
      logger.info({ table: showTable(dropped.ref), droppedId: dropped.id }, 'purged a table that was dropped');
    }
  } catch (error) {
    if (!stopping.aborted) logger.warn({ error }, 'a dropped table could not be purged; the service tries again');
  }
}

export const purgeDroppedTablesRoute = onceRoute('purge_dropped_tables', purgeDroppedTables, {
  path: '/v1/table/:id/trash/purge',
  target: tableTarget,
  action: 'PurgeTable',
  summary: 'Removes dropped tables of a name, and their files, from the trash',
  answers: Type.Object({ purged: Type.Array(Type.String()) }),
  body: Type.Object({ dropped_id: droppedId }),
  answer: async (operation, { target: table, body }) => {
    const { purged } = await operation({ table, id: readDroppedId(body.dropped_id) });
    return { purged };
  },
});
