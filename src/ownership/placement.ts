import { createHash } from 'node:crypto';
import type { Replica } from '../catalog/replica-port.ts';
import type { TableRef } from '../kernel/ids.ts';

/**
 * Which of these replicas should claim a name without an owner. All replicas choose the same one, because each name has a rank of its own
 * for each replica. undefined where none stays.
 */
export function chosenFor({ namespace, name }: TableRef, replicas: readonly Replica[]): Replica | undefined {
  const text = JSON.stringify([...namespace, name]);
  const rank = (id: string): string => createHash('sha256').update(`${id}\n${text}`).digest('hex');
  let chosen: { readonly replica: Replica; readonly rank: string } | undefined;
  for (const replica of replicas) {
    if (replica.isLeaving) continue;
    const own = rank(replica.id);
    if (chosen === undefined || own > chosen.rank) chosen = { replica, rank: own };
  }
  return chosen?.replica;
}

/**
 * Where the names go that the replica `id` owns beyond its share: a replica for each, the one that owns least then. Ranks alone spread
 * unevenly: of 20 names over 3 replicas one often has 10. `owned` says how many names each replica owns.
 */
export function successorsOfSurplus(
  id: string,
  owned: ReadonlyMap<string, number>,
  replicas: readonly Replica[],
): readonly string[] {
  const staying = replicas.filter(({ isLeaving }) => !isLeaving);
  const counts = new Map(staying.map((replica) => [replica.id, owned.get(replica.id) ?? 0]));
  const own = counts.get(id) ?? 0;
  const share = Math.ceil([...counts.values()].reduce((sum, count) => sum + count, 0) / counts.size);
  // A replica with so much more than its share keeps it: with many names, a few more are not worth a move.
  if (own <= share * 1.1) return [];
  counts.delete(id);
  const successors: string[] = [];
  for (let surplus = own - share; surplus > 0; surplus--) {
    const [successor, least] = [...counts].reduce((a, b) => (b[1] < a[1] ? b : a));
    successors.push(successor);
    counts.set(successor, least + 1);
  }
  return successors;
}
