import type { Clock } from '../../kernel/clock.ts';
import { ExpiringCache } from '../../kernel/expiring-cache.ts';
import { type Principal, principalKey } from '../../kernel/principal.ts';

/** Of one principal. To say no takes 0.1 ms of the event loop, so that is a twentieth of it. */
const returnsPerSecond = 500;
const msBetweenReturns = 1000 / returnsPerSecond;
/** As good as at once: room is taken for less. */
const soonestMs = 1000;
/** Whoever waits is idle, also when there is room by then. 2,500 clients are spread over this time, more come oftener. */
const latestMs = 5000;
/** Principals that are being refused. A number each. */
const maxPrincipals = 10_000;

/**
 * When those should return for whom there is no room: in line, a few milliseconds after the one before, so that they do not
 * take the time of those who are served with asking whether there is room by now (P7). Each principal has a line of its own,
 * so a few clients hear a second, however many another principal has (P10).
 *
 * This is the theoretical arrival time of the generic cell rate algorithm (ITU-T I.371), told instead of enforced: who
 * does not know of `Retry-After` is refused as often as it comes.
 */
export class ReturnTimes {
  readonly #clock: Clock;
  /** When the last one who was sent away comes back. */
  readonly #last: ExpiringCache<number>;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#last = new ExpiringCache(maxPrincipals, clock);
  }

  /** Whole seconds, as `Retry-After` has them, rounded down: who is told of the same second comes at another moment of it. */
  secondsFor(principal: Principal): number {
    const key = principalKey(principal);
    const nowMs = this.#clock.nowMs();
    const behind = (this.#last.get(key) ?? 0) + msBetweenReturns;
    const atMs = Math.min(Math.max(behind, nowMs + soonestMs), nowMs + latestMs);
    this.#last.set(key, atMs, atMs);
    return Math.floor((atMs - nowMs) / 1000);
  }
}
