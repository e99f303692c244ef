import { createHash } from 'node:crypto';
import type { Replica } from '../catalog/replica-port.ts';
import type { TableRef } from '../kernel/ids.ts';

/**
 * Which of these replicas should own the name, the same for all that ask: each name has a rank of its own for each replica. A
 * replica that joins or leaves moves its share and no other name. undefined without any that stays.
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
