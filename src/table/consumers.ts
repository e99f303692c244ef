/**
 * Programs that take the changes of a table, by a name each (docs/design/changes.md). A consumer is a tag on the version that it
 * acknowledged last: that version and all that follow stay, so that what it has not taken can be told exactly.
 */
import type { StoredTag } from '../engine/port/stored-tags.ts';
import type { Clock } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import type { BranchName, TableId } from '../kernel/ids.ts';
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
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
}

export class Consumers {
  readonly #rules: Pick<ConsumerRules, 'clock' | 'consumerRetentionMs'>;
  /** The versions of each branch that consumers keep, as they were last looked at. */
  readonly #held = new Map<string, number>();

  constructor(rules: ConsumerRules) {
    this.#rules = rules;
    rules.metrics.watchConsumerVersions(() => Math.max(0, ...this.#held.values()));
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
  oldestVersion(tags: readonly StoredTag[], { tableId, branch }: HeldBranch, newest: number): number {
    const oldest = Math.min(...consumersAmong(tags).flatMap((each) => (each.branch === branch ? each.version : [])));
    const key = JSON.stringify([tableId, branch ?? null]);
    if (oldest < newest) this.#held.set(key, newest - oldest);
    else this.#held.delete(key);
    return oldest;
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

/** The most requests that wait for a commit at once. */
const mostWaiting = 256;
const betweenLooksMs = 250;

/** Requests that wait for the next commit of a table. They look for it, since another process may make it. */
export class CommitWaits {
  readonly #clock: Clock;
  readonly #started: Metrics['changesAwaited'];
  readonly #closed = new AbortController();
  #waiting = 0;

  constructor({ clock, metrics }: Pick<ConsumerRules, 'clock' | 'metrics'>) {
    this.#clock = clock;
    this.#started = metrics.changesAwaited;
  }

  /** Resolves once `isThere` says so, the time is over, the request ends or the service stops; which of them it does not tell. `SlowDown`. */
  async wait(forMs: number, signal: AbortSignal, isThere: () => Promise<boolean>): Promise<void> {
    if (forMs <= 0 || (await isThere())) return;
    if (this.#waiting >= mostWaiting)
      throw new LancegateError('SlowDown', 'too many requests wait for commits', { retryAfterSeconds: 5 });
    const ends = AbortSignal.any([signal, this.#closed.signal]);
    const endMs = this.#clock.nowMs() + forMs;
    const ended = this.#started();
    this.#waiting += 1;
    try {
      do await this.#pass(ends);
      while (!ends.aborted && this.#clock.nowMs() < endMs && !(await isThere()));
    } finally {
      this.#waiting -= 1;
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
