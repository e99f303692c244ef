/**
 * Programs that take the changes of a table, by a name each (docs/design/changes.md). A consumer is a tag on the version that it
 * acknowledged last. That version and all that follow stay, so that the changes it has not taken can be read exactly.
 */
import type { StoredTag } from '../engine/port/stored-tags.ts';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, Location } from '../kernel/ids.ts';
import { principalKey, type RequestScope } from '../kernel/request-scope.ts';
import { type Holder, Quota } from '../memory/body-memory.ts';
import type { Metrics } from '../telemetry/metrics.ts';

const prefix = 'consumer-';
/** A table has no more of them. */
const mostConsumers = 16;

/** The name of its tag. */
export function consumerTag(consumer: string): string {
  if (/^[a-z0-9_-]{1,64}$/.test(consumer)) return `${prefix}${consumer}`;
  throw invalidInput('consumer: it has 1 to 64 of the letters a to z, digits, "-" and "_"');
}

interface ConsumerRules {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** How long a consumer keeps the versions after the one that it acknowledged last. */
  readonly consumerRetentionMs: number;
}

interface HeldBranch {
  readonly location: Location;
  readonly branch: BranchName | undefined;
}

export class Consumers {
  readonly #rules: Pick<ConsumerRules, 'clock' | 'consumerRetentionMs'>;
  /** The versions of each branch that consumers keep, as they were last looked at. */
  readonly #held = new Map<Location, Map<BranchName | undefined, number>>();

  constructor(rules: ConsumerRules) {
    this.#rules = rules;
    rules.metrics.watchConsumerVersions(() =>
      Math.max(0, ...[...this.#held.values()].flatMap((each) => [...each.values()])),
    );
  }

  /** Those that have acknowledged nothing new for too long. */
  expired(tags: readonly StoredTag[]): readonly StoredTag[] {
    const { clock, consumerRetentionMs } = this.#rules;
    const oldest = clock.nowMs() - consumerRetentionMs;
    return consumersAmong(tags).filter(
      ({ updatedAt, createdAt }) => !(Date.parse(updatedAt ?? createdAt ?? '') >= oldest),
    );
  }

  /** The oldest version that one of the branch's consumers keeps; `Infinity` without any. `newest`: of the branch. */
  oldestVersion(tags: readonly StoredTag[], { location, branch }: HeldBranch, newest: number): number {
    const oldest = Math.min(...consumersAmong(tags).flatMap((each) => (each.branch === branch ? each.version : [])));
    const held = this.#held.get(location) ?? new Map<BranchName | undefined, number>();
    if (oldest < newest) this.#held.set(location, held.set(branch, newest - oldest));
    else held.delete(branch);
    return oldest;
  }

  /** The files are gone, or another process looks after them. Of those that stay here the next look knows. */
  forget(location: Location): void {
    this.#held.delete(location);
  }
}

const consumersAmong = (tags: readonly StoredTag[]): readonly StoredTag[] =>
  tags.filter(({ name }) => name.startsWith(prefix));

/** `InvalidInput` where there are too many to have one more. */
export function requireRoomForConsumer(tags: readonly StoredTag[]): void {
  if (consumersAmong(tags).length < mostConsumers) return;
  throw invalidInput(
    `consumer: the table has ${mostConsumers} already: delete the tag ${prefix}… of one that is not used any more`,
  );
}

/** The most requests that wait for a commit at once; each principal has a share of them (P10). */
const mostWaiting = 256;
const betweenLooksMs = 250;

interface WaitRules extends Pick<ConsumerRules, 'clock' | 'metrics'> {
  readonly principalShare: number;
}

type Waiting = Pick<RequestScope, 'signal' | 'principal'>;

/** Requests that wait for the next commit of a table. They look for it, since another process may make it. */
export class CommitWaits {
  readonly #clock: Clock;
  readonly #started: Metrics['changesAwaited'];
  readonly #principalShare: number;
  readonly #waiting = new Quota(mostWaiting, 'requests that wait for commits');
  readonly #closed = new AbortController();

  constructor({ clock, metrics, principalShare }: WaitRules) {
    this.#clock = clock;
    this.#principalShare = principalShare;
    this.#started = metrics.changesAwaited;
  }

  /** Resolves once `isThere` says so, the time is over, the request ends or the service stops; which of them it does not tell. `SlowDown`. */
  async wait(forMs: number, { signal, principal }: Waiting, isThere: () => Promise<boolean>): Promise<void> {
    if (forMs <= 0 || (await isThere())) return;
    const name = principalKey(principal);
    const holders: readonly Holder[] = [{ kind: 'principal', name, share: this.#principalShare }];
    this.#waiting.take(1, holders);
    const ends = AbortSignal.any([signal, this.#closed.signal]);
    const endMs = this.#clock.nowMs() + forMs;
    const ended = this.#started();
    try {
      do await this.#pass(ends);
      while (!ends.aborted && this.#clock.nowMs() < endMs && !(await isThere()));
    } finally {
      this.#waiting.giveBack(1, holders);
      ended();
    }
  }

  /** No request waits any more. */
  close(): void {
    this.#closed.abort();
  }

  #pass(ends: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#clock.schedule(betweenLooksMs, resolve);
    const stop = (): void => {
      cancel();
      resolve();
    };
    if (ends.aborted) stop();
    ends.addEventListener('abort', stop, { once: true });
    return promise.finally(() => ends.removeEventListener('abort', stop));
  }
}
