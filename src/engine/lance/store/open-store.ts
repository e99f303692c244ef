import { LancegateError } from '../../../kernel/errors.ts';
import type { Properties } from '../../../kernel/ids.ts';
import type { ObjectStore } from './object-store.ts';
import { S3Store } from './s3-store.ts';

/** A part of a bucket. */
export interface StorePlace {
  readonly store: ObjectStore;
  /** Of all keys; empty or with a slash at its end. */
  readonly prefix: string;
}

/** undefined for a store that only the engine can reach. */
export function openStore(uri: string, options: Properties): StorePlace | undefined {
  const [, scheme = '', bucket = '', path = ''] = /^([a-z0-9+]+):\/\/([^/]+)\/?(.*)$/.exec(uri) ?? [];
  if (scheme !== 's3') return undefined;
  return { store: new S3Store(bucket, options), prefix: path === '' ? '' : `${path.replace(/\/+$/, '')}/` };
}

const racers = 8;

/**
 * Throws `Unsupported` for a store that makes an object for more than one of several programs that ask at once: commits would be lost
 * there. `name`: a key that no table has. `uri` names the store in the error.
 */
export async function requireOneWinner({ store, prefix }: StorePlace, name: string, uri: string): Promise<void> {
  const key = `${prefix}${name}`;
  const races = Array.from({ length: racers }, (_, racer) => store.putIfAbsent(key, Buffer.from(`${name} ${racer}`)));
  const outcomes = await Promise.allSettled(races);
  await store.delete([key]).catch(() => undefined); // it harms no one
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  const winners = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value).length;
  if (winners === 1) return;
  throw new LancegateError(
    'Unsupported',
    `${uri} does not honour conditional writes (If-None-Match): ${winners} of ${racers} programs made the same object`,
  );
}
