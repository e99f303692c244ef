import type { Clock } from '../../kernel/clock.ts';
import { ExpiringCache } from '../../kernel/expiring-cache.ts';
import { type Principal, principalKey } from '../../kernel/principal.ts';

/** A refusal takes up to 0.4 ms of the event loop. */
const msBetweenReturns = 2;
const soonestMs = 1000;
/** A client that waits is idle, also if there is capacity by then. */
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

  /** Whole seconds, rounded down: clients that are told the same second return at different moments of it. */
  secondsFor(principal: Principal | undefined): number {
    const key = principal === undefined ? '' : principalKey(principal);
    const nowMs = this.#clock.nowMs();
    const next = (this.#last.get(key) ?? 0) + msBetweenReturns;
    const atMs = Math.min(Math.max(next, nowMs + soonestMs), nowMs + latestMs);
    this.#last.set(key, atMs, atMs);
    return Math.floor((atMs - nowMs) / 1000);
  }
}
