import { setTimeout } from 'node:timers/promises';
import { LancegateError } from '../../../kernel/errors.ts';
import type { ObjectStore } from './object-store.ts';
import { stopwatch } from './standstill.ts';

/** `unclear`: no answer, or one that does not say whether the object was made. */
export type PutOutcome = 'made' | 'taken' | 'unclear';

const mostAttempts = 6;
const firstPauseMs = 50;
/** No attempt begins after this: writers wait, and the store does not answer. */
const longestMs = 60_000;

/**
 * As `ObjectStore.putIfAbsent`, by a request that is sent once. Each refusal may be that of a request that the network repeated, so the
 * object itself says who made it. Where it is not there the first request may still be on its way: then one of both fails.
 */
export async function putUntilKnown(
  store: Pick<ObjectStore, 'get'>,
  key: string,
  content: Uint8Array,
  putOnce: () => Promise<PutOutcome>,
): Promise<boolean> {
  const elapsedMs = stopwatch();
  for (let attempt = 0; attempt < mostAttempts && elapsedMs() < longestMs; attempt++) {
    if (attempt > 0) await setTimeout(firstPauseMs * 2 ** attempt);
    const outcome = await putOnce().catch((error: unknown) => {
      throw attempt === 0 ? error : unknown(error);
    });
    if (outcome === 'made') return true;
    const found = await store.get(key).catch(() => 'unreadable' as const);
    if (found instanceof Buffer) return found.equals(content);
    // Another program made it and has removed it: its name is not to be used again.
    if (outcome === 'taken' && found === undefined) return false;
  }
  throw unknown(undefined);
}

const unknown = (cause: unknown): LancegateError =>
  new LancegateError('Internal', 'whether the object store has made the version is not known', { cause });
