import { queueIsFull } from './errors.ts';
import { reasonOf } from './request-scope.ts';

/** A wait takes it that ends by itself, because every request ahead has a deadline. */
export const neverAborts = new AbortController().signal;

/** Gives the lock back. It may be called more than once. */
export type Release = () => void;

type Mode = 'shared' | 'exclusive';

interface Waiter {
  readonly mode: Mode;
  readonly grant: () => void;
}

/**
 * A read-write lock with a bounded queue, granted in the order of arrival: no waiter overtakes another, so neither mode
 * starves. It is not re-entrant: a holder that acquires it again waits for ever.
 */
export class ReadWriteLock {
  readonly #maxWaiting: number;
  readonly #waiters: string;
  readonly #waiting: Waiter[] = [];
  #sharedHolders = 0;
  #isExclusive = false;

  /** `waiters` names in refusals what this lock serves, in the plural. */
  constructor(maxWaiting: number, waiters: string) {
    this.#maxWaiting = maxWaiting;
    this.#waiters = waiters;
  }

  get isIdle(): boolean {
    return !this.#isExclusive && this.#sharedHolders === 0 && this.#waiting.length === 0;
  }

  get isWaitedFor(): boolean {
    return this.#waiting.length > 0;
  }

  get waitingExclusive(): number {
    return this.#waiting.filter(({ mode }) => mode === 'exclusive').length;
  }

  /** Throws `SlowDown` when the queue is full, and the signal's reason when the signal aborts first. */
  acquire(mode: Mode, signal: AbortSignal): Promise<Release> {
    if (signal.aborted) return Promise.reject(reasonOf(signal));
    if (this.#waiting.length === 0 && this.#isFree(mode)) return Promise.resolve(this.#hold(mode));
    if (this.#waiting.length >= this.#maxWaiting) return Promise.reject(queueIsFull(this.#waiters));
    return this.#wait(mode, signal);
  }

  #wait(mode: Mode, signal: AbortSignal): Promise<Release> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(reasonOf(signal));
        this.#grant();
      };
      const waiter: Waiter = {
        mode,
        grant: () => {
          signal.removeEventListener('abort', leave);
          resolve(this.#hold(mode));
        },
      };
      this.#waiting.push(waiter);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  #isFree(mode: Mode): boolean {
    return !this.#isExclusive && (mode === 'shared' || this.#sharedHolders === 0);
  }

  #hold(mode: Mode): Release {
    if (mode === 'exclusive') this.#isExclusive = true;
    else this.#sharedHolders += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (mode === 'exclusive') this.#isExclusive = false;
      else this.#sharedHolders -= 1;
      this.#grant();
    };
  }

  #grant(): void {
    let next = this.#waiting[0];
    while (next !== undefined && this.#isFree(next.mode)) {
      this.#waiting.shift();
      next.grant();
      next = this.#waiting[0];
    }
  }
}
