/**
 * Leases say which replica owns a name: a replica renews one row for all that it owns, and only the clock of the database says
 * whether that has expired. Each claim of a name raises its epoch.
 */
import { type ExpressionBuilder, type RawBuilder, sql } from 'kysely';
import type { TableId, TableRef } from '../../kernel/ids.ts';
import { writerMoved } from '../refusals.ts';
import type { Claim, Lease, NameOwner, OwnedName, OwnedNames, Replica } from '../replica-port.ts';
import { type CatalogDb, type CatalogSchema, tablePathOf, tableRefOf } from './catalog-db.ts';

/** Engines spell these differently. */
export interface OwnerSql {
  /** The clock of the database counts milliseconds since 1970. */
  readonly nowMs: RawBuilder<number>;
  /** It says whether rows can be locked, and have to be: where transactions run concurrently. */
  readonly locksRows: boolean;
}

/** Enters the replica, or makes its lease last from now on again. */
export async function renewLease(db: CatalogDb, { nowMs }: OwnerSql, lease: Lease): Promise<void> {
  const row = {
    address: lease.address,
    expires_at_ms: sql<number>`${nowMs} + ${sql.lit(lease.durationMs)}`,
    is_leaving: Number(lease.isLeaving),
  };
  await db
    .insertInto('replicas')
    .values({ id: lease.replica, ...row })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute();
}

export async function endLease(db: CatalogDb, replica: string): Promise<void> {
  await db.deleteFrom('replicas').where('id', '=', replica).execute();
}

export async function liveReplicas(db: CatalogDb, { nowMs }: OwnerSql): Promise<readonly Replica[]> {
  const rows = await db.selectFrom('replicas').selectAll().where('expires_at_ms', '>', nowMs).orderBy('id').execute();
  return rows.map(({ id, address, is_leaving }) => ({ id, address, isLeaving: is_leaving === 1 }));
}

const ownerRows = (db: CatalogDb, { nowMs }: OwnerSql) =>
  db
    .selectFrom('table_owners')
    .leftJoin('replicas', (join) =>
      join.onRef('replicas.id', '=', 'table_owners.replica').on('replicas.expires_at_ms', '>', nowMs),
    );

/** undefined where no living replica owns the name. A replica that leaves owns only what it has claimed, not what it was given. */
export async function findOwner(db: CatalogDb, engine: OwnerSql, ref: TableRef): Promise<NameOwner | undefined> {
  const row = await ownerRows(db, engine)
    .select(['replicas.id', 'replicas.address'])
    .where('table_owners.path', '=', tablePathOf(ref))
    .where((owner) => owner.or([owner('is_leaving', '=', 0), owner('is_settled', '=', 0)]))
    .executeTakeFirst();
  return row?.id == null || row.address === null ? undefined : { id: row.id, address: row.address };
}

/**
 * A name of the replica itself gets a new epoch, too: it asks because it does not know the old one. The first epoch of a row is a
 * time, so it is later than all of a row that was there before and was forgotten (`forgetUnusedNames`).
 */
export async function claimName(
  db: CatalogDb,
  engine: OwnerSql,
  ref: TableRef,
  replica: string,
): Promise<Claim | NameOwner> {
  const path = tablePathOf(ref);
  const owner = await findOwner(db, engine, ref);
  if (owner !== undefined && owner.id !== replica) return owner;
  const before = await db.selectFrom('table_owners').selectAll().where('path', '=', path).executeTakeFirst();
  const row = { replica, is_settled: 0, wanted_by: null };
  const { epoch } = await db
    .insertInto('table_owners')
    .values({ path, ...row, epoch: engine.nowMs })
    .onConflict((conflict) => conflict.column('path').doUpdateSet({ ...row, epoch: sql`table_owners.epoch + 1` }))
    .returning('epoch')
    .executeTakeFirstOrThrow();
  return { epoch, isSettled: before === undefined || before.is_settled === 1 };
}

export async function isOwner(db: CatalogDb, engine: OwnerSql, name: OwnedName, replica: string): Promise<boolean> {
  const row = await ownerRows(db, engine)
    .select('replicas.id')
    .where('path', '=', tablePathOf(name.ref))
    .where('replica', '=', replica)
    .where('epoch', '=', name.epoch)
    .where('replicas.id', 'is not', null)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Nothing happens where the replica has lost the name. A row that is released in order stays settled until the name is claimed. Without
 * a `successor` it is then that of the replica that last asked for it: otherwise its last owner, or another, could claim it first.
 */
export async function releaseName(
  db: CatalogDb,
  { ref, epoch }: OwnedName,
  replica: string,
  isSettled: boolean,
  successor?: string,
): Promise<void> {
  await db
    .updateTable('table_owners')
    .set((row) => ({
      replica: isSettled ? (successor ?? row.ref('wanted_by')) : null,
      is_settled: Number(isSettled),
      wanted_by: null,
    }))
    .where('path', '=', tablePathOf(ref))
    .where('replica', '=', replica)
    .where('epoch', '=', epoch)
    .execute();
}

export async function countNames(db: CatalogDb): Promise<ReadonlyMap<string, number>> {
  const rows = await db
    .selectFrom('table_owners')
    .select((row) => ['replica', row.fn.countAll<number | string>().as('names')] as const)
    .where('replica', 'is not', null)
    .groupBy('replica')
    .execute();
  return new Map(rows.flatMap(({ replica, names }) => (replica === null ? [] : [[replica, Number(names)]])));
}

export async function wantNames(db: CatalogDb, refs: readonly TableRef[], replica: string): Promise<void> {
  await db
    .updateTable('table_owners')
    .set({ wanted_by: replica })
    .where('path', 'in', refs.map(tablePathOf))
    .where('replica', '!=', replica)
    .execute();
}

export async function namesOf(
  db: CatalogDb,
  replica: string,
  which: 'all' | 'wanted' | 'unused',
): Promise<readonly OwnedName[]> {
  const rows = await db
    .selectFrom('table_owners')
    .select(['path', 'epoch'])
    .where('replica', '=', replica)
    .$if(which === 'wanted', (query) => query.where('wanted_by', 'is not', null).where('wanted_by', '!=', replica))
    .$if(which === 'unused', (query) => query.where(isUnused))
    .execute();
  return rows.map(({ path, epoch }) => ({ ref: tableRefOf(path), epoch }));
}

/** Neither a table nor a create has the name. */
const isUnused = ({ and, not, exists, selectFrom, ref }: ExpressionBuilder<CatalogSchema, 'table_owners'>) =>
  and([
    not(exists(selectFrom('tables').select('tables.path').where('tables.path', '=', ref('table_owners.path')))),
    not(
      exists(selectFrom('creations').select('creations.path').where('creations.path', '=', ref('table_owners.path'))),
    ),
  ]);

/** Says whether a table or a create has the name. Creates are looked at first: one may be published in between. */
export async function isTaken(db: CatalogDb, ref: TableRef): Promise<boolean> {
  const path = tablePathOf(ref);
  const creation = await db.selectFrom('creations').select('path').where('path', '=', path).executeTakeFirst();
  if (creation !== undefined) return true;
  const table = await db.selectFrom('tables').select('path').where('path', '=', path).executeTakeFirst();
  return table !== undefined;
}

/** Forgets names that nothing has, and that no replica has claimed since their last owner left nothing to undo. */
export async function forgetUnusedNames(db: CatalogDb): Promise<void> {
  await db.deleteFrom('table_owners').where('is_settled', '=', 1).where(isUnused).execute();
}

/** Returns names whose last owner has not handed them over, and is gone. */
export async function unsettledNames(db: CatalogDb, engine: OwnerSql, limit: number): Promise<readonly TableRef[]> {
  const rows = await ownerRows(db, engine)
    .select('path')
    .where('replicas.id', 'is', null)
    .where((row) => row.or([row('table_owners.replica', 'is not', null), row('is_settled', '=', 0)]))
    .orderBy('path')
    .limit(limit)
    .execute();
  return rows.map(({ path }) => tableRefOf(path));
}

export async function forgetEndedReplicas(db: CatalogDb, { nowMs }: OwnerSql): Promise<void> {
  await db
    .deleteFrom('replicas')
    // For how long the row of a replica is kept that has ended, and that no query needs.
    .where('expires_at_ms', '<', sql<number>`${nowMs} - ${sql.lit(3_600_000)}`)
    .execute();
}

/**
 * Throws `WriterMoved` unless the replica owns these names in the epochs that it knows. Holds their rows until the transaction
 * ends, so that no replica claims one before.
 */
export async function requireOwned(
  db: CatalogDb,
  { locksRows }: OwnerSql,
  names: OwnedNames,
  refs: readonly TableRef[],
): Promise<void> {
  const byPath = new Map(refs.map((ref) => [tablePathOf(ref), ref]));
  for (const [path, ref] of byPath) {
    const epoch = names.epochOf(ref);
    if (epoch === undefined) throw writerMoved(ref);
    const row = await db
      .selectFrom('table_owners')
      .select('epoch')
      .where('path', '=', path)
      .where('replica', '=', names.replica)
      .where('epoch', '=', epoch)
      .$if(locksRows, (query) => query.forShare())
      .executeTakeFirst();
    if (row === undefined) throw writerMoved(ref);
  }
}

export async function refOfTable(db: CatalogDb, id: TableId): Promise<TableRef | undefined> {
  const row = await db.selectFrom('tables').select('path').where('id', '=', id).executeTakeFirst();
  return row && tableRefOf(row.path);
}
