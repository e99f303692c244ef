import { LancegateError } from './errors.ts';

/** For a wait that ends by itself: the requests ahead all have deadlines. */
export const untilItsTurn = new AbortController().signal;

type Mode = 'shared' | 'alone';
interface Waiter {
  readonly mode: Mode;
  readonly grant: () => void;
}

/**
 * A first-come, first-served lock with a bounded queue: many `shared` holders at once, or one `alone`. Nobody overtakes,
 * so neither sort starves. Not re-entrant: who holds it and takes it again waits for ever.
 */
export class Turns {
  readonly #maxWaiting: number;
  readonly #waiting: Waiter[] = [];
  #shared = 0;
  #alone = false;

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
  }

  get isIdle(): boolean {
    return !this.#alone && this.#shared === 0 && this.#waiting.length === 0;
  }

  /** How many wait to be alone. */
  get waitingAlone(): number {
    return this.#waiting.filter(({ mode }) => mode === 'alone').length;
  }

  /**
   * Resolves to the release function, which may be called more than once. Throws `SlowDown` when the queue is full, and
   * the signal's reason when that aborts first.
   */
  take(mode: Mode, signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    if (this.#waiting.length === 0 && this.#isFree(mode)) return Promise.resolve(this.#enter(mode));
    if (this.#waiting.length >= this.#maxWaiting) return Promise.reject(queueIsFull());
    return this.#queue(mode, signal);
  }

  #queue(mode: Mode, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(signal.reason as Error);
        this.#grant();
      };
      const waiter: Waiter = {
        mode,
        grant: () => {
          signal.removeEventListener('abort', leave);
          resolve(this.#enter(mode));
        },
      };
      this.#waiting.push(waiter);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  #isFree(mode: Mode): boolean {
    return !this.#alone && (mode === 'shared' || this.#shared === 0);
  }

  #enter(mode: Mode): () => void {
    if (mode === 'alone') this.#alone = true;
    else this.#shared += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      if (mode === 'alone') this.#alone = false;
      else this.#shared -= 1;
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

const queueIsFull = (): LancegateError =>
  new LancegateError('SlowDown', 'too many writers already wait for this table', { retryAfterSeconds: 1 });
