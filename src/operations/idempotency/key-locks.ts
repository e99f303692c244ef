import type { KeyedRequest } from '../../catalog/port.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { ReadWriteLock, type Release } from '../../kernel/read-write-lock.ts';

/** Clients retry one at a time; more than this at once is a client gone wrong. */
const maxAtOnce = 16;

interface KeyLock {
  readonly lock: ReadWriteLock;
  /** The holder and the waiters. */
  present: number;
}

/** A lock for each `Idempotency-Key`. A key without requests is forgotten, so there are no more than requests (P7). */
export class KeyLocks {
  readonly #byKey = new Map<string, KeyLock>();

  /** `SlowDown` where too many wait; the signal's reason where it aborts first. */
  async acquire({ owner, key }: Pick<KeyedRequest, 'owner' | 'key'>, signal: AbortSignal): Promise<Release> {
    const name = JSON.stringify([owner, key]);
    const of = this.#byKey.get(name) ?? { lock: new ReadWriteLock(maxAtOnce), present: 0 };
    if (of.present >= maxAtOnce) throw tooMany();
    this.#byKey.set(name, of);
    of.present += 1;
    const forget = (): void => {
      of.present -= 1;
      if (of.present === 0) this.#byKey.delete(name);
    };
    try {
      const release = await of.lock.acquire('exclusive', signal);
      return () => {
        release();
        forget();
      };
    } catch (error) {
      forget();
      throw error;
    }
  }
}

const tooMany = (): LancegateError =>
  new LancegateError('SlowDown', 'too many requests with this Idempotency-Key wait already', { retryAfterSeconds: 1 });
