/** One row says where the tables of replicas are; the first replica writes it. */

import type { Replica, RootMove } from '../replica-port.ts';
import type { CatalogDb } from './catalog-db.ts';
import { liveReplicas, type OwnerSql } from './owners.ts';

/** Returns the root that the catalog has; `first` where it had none. */
export async function agreeOnRoot(db: CatalogDb, first: string): Promise<string> {
  await db
    .insertInto('storage_root')
    .values({ only_row: 1, root: first })
    .onConflict((conflict) => conflict.column('only_row').doNothing())
    .execute();
  const { root } = await db.selectFrom('storage_root').select('root').executeTakeFirstOrThrow();
  return root;
}

/** Returns the other living replicas; where there are any, nothing happens. Nor does it where the root is not `from` any more. */
export async function moveRoot(
  db: CatalogDb,
  engine: OwnerSql,
  { from, to, replica }: RootMove,
): Promise<readonly Replica[]> {
  const others = (await liveReplicas(db, engine)).filter(({ id }) => id !== replica);
  if (others.length === 0) await db.updateTable('storage_root').set({ root: to }).where('root', '=', from).execute();
  return others;
}
