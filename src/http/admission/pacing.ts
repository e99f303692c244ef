/** What comes all at once is spread over time: writes over iterations of the event loop, refused clients over seconds (P7). */
import type { Clock } from '../../kernel/clock.ts';
import { ExpiringCache } from '../../kernel/expiring-cache.ts';
import { type Principal, principalKey } from '../../kernel/request-scope.ts';

/**
 * Calls what is added, at most so many in one iteration of the event loop, so that Node serves its sockets in between: at once
 * while nothing waits, else in rotation over the lanes, each in its order. So a short lane does not wait for a long one (P10).
 * Its size has the bound of its callers; here, the connections of the server.
 */
export class PacedQueue {
  readonly #perIteration: number;
  /** The lane that is next comes first. None is empty. */
  readonly #lanes = new Map<string, (() => void)[]>();
  /** How many may still be called in this iteration; 0 while any wait. */
  #left: number;
  #isScheduled = false;

  constructor(perIteration: number) {
    this.#perIteration = perIteration;
    this.#left = perIteration;
  }

  add(lane: string, call: () => void): void {
    this.#schedule();
    if (this.#left > 0) {
      this.#left -= 1;
      call();
      return;
    }
    const waiting = this.#lanes.get(lane);
    if (waiting === undefined) this.#lanes.set(lane, [call]);
    else waiting.push(call);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#callNext());
  }

  #callNext(): void {
    this.#isScheduled = false;
    this.#left = this.#perIteration;
    const next: (() => void)[] = [];
    // A lane that is added again at the end while this iterates comes up again.
    for (const [lane, waiting] of this.#lanes) {
      next.push(...waiting.splice(0, 1));
      this.#lanes.delete(lane);
      if (waiting.length > 0) this.#lanes.set(lane, waiting);
      this.#left -= 1;
      if (this.#left === 0) break;
    }
    if (this.#lanes.size > 0) this.#schedule();
    for (const call of next) call();
  }
}

/** A refusal takes up to 0.4 ms of the event loop. */
const msBetweenReturns = 2;
const soonestMs = 1000;
/** A client that waits is idle, even if there is capacity by then. */
const latestMs = 5000;
const maxPrincipals = 10_000;

/**
 * `Retry-After` for clients that were refused for want of capacity: those of one principal return one after the other, so that
 * they do not take the time of the requests that are served (P7), and those of another principal need not wait for them (P10).
 *
 * This is the theoretical input time of the generic cell rate algorithm (ITU-T I.371), announced and not enforced: a
 * client that ignores `Retry-After` is refused as often as it comes.
 */
export class RetryPacing {
  readonly #clock: Clock;
  /** When the last refused client of a principal returns. */
  readonly #last: ExpiringCache<number>;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#last = new ExpiringCache(maxPrincipals, clock);
  }

  /** Whole seconds, rounded down: clients with the same number return at different moments of that second. */
  secondsFor(principal: Principal | undefined): number {
    const key = principal === undefined ? '' : principalKey(principal);
    const nowMs = this.#clock.nowMs();
    const next = (this.#last.get(key) ?? 0) + msBetweenReturns;
    const atMs = Math.min(Math.max(next, nowMs + soonestMs), nowMs + latestMs);
    this.#last.set(key, atMs, atMs);
    return Math.floor((atMs - nowMs) / 1000);
  }
}
