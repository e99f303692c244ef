import type { Replica, ReplicaCatalog } from '../catalog/replica-port.ts';
import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Milliseconds that pass also while the process stands still, and that no change of the wall clock moves. */
export type MonotonicClock = () => number;

export interface LeaseTimes {
  /** How long a replica that ended without a word keeps what it owns. */
  readonly durationMs: number;
  readonly renewEveryMs: number;
  /** So much earlier than the database the replica holds its lease for expired. */
  readonly marginMs: number;
}

/** A replica that was killed is replaced within the first five seconds. Safety does not depend on these. */
export const leaseTimes: LeaseTimes = { durationMs: 4_000, renewEveryMs: 1_000, marginMs: 1_000 };

interface LeaseParts {
  readonly catalog: ReplicaCatalog;
  readonly clock: Clock;
  readonly monotonicMs: MonotonicClock;
  readonly logger: Logger;
  readonly replica: string;
  readonly times: LeaseTimes;
  /** Called after each renewal. `hadExpired`: others may have claimed names of this replica. */
  readonly renewed: (hadExpired: boolean) => void;
}

interface ReplicaEntry {
  readonly address: string;
  readonly reachStorage: () => Promise<void>;
}

/**
 * One row is the lease of this replica for all that it owns, and it renews it. The clock of the database decides when that expires. This
 * process counts from before it sent a renewal, so by its own clock the lease is over first.
 */
export class ReplicaLease {
  readonly #parts: LeaseParts;
  readonly #sharedAddress: SharedAddress;
  #validUntilMs = Number.NEGATIVE_INFINITY;
  #replicas: readonly Replica[] = [];
  /** It is undefined until `start`. */
  #entry: ReplicaEntry | undefined;
  #ensuring: Promise<void> | undefined;
  #isLeaving = false;
  #isClosed = false;
  /** When the check of the storage was begun that the next lines are from; of several under way the last decides. */
  #askedStorageAtMs = Number.NEGATIVE_INFINITY;
  #storageLostSinceMs: number | undefined;
  readonly #readers = new Set<(gone: LancegateError) => void>();
  #cancel: (() => void) | undefined;
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: LeaseParts) {
    this.#parts = parts;
    this.#sharedAddress = new SharedAddress({ ...parts, leaseMs: parts.times.durationMs });
  }

  /** Says whether no other replica can have claimed what this one owns. */
  get isValid(): boolean {
    return this.#parts.monotonicMs() < this.#validUntilMs;
  }

  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** The replicas that lived when the lease was last renewed. */
  get replicas(): readonly Replica[] {
    return this.#replicas;
  }

  /** `StorageUnavailable` as soon as the storage has not answered a check in time, until it answers one. */
  requireStorage(): void {
    if (this.#storageLostSinceMs !== undefined) throw storageLost();
  }

  /**
   * What `read` gives; `StorageUnavailable` as soon as the storage has not answered for as long as a lease lasts, whatever becomes of
   * `read`. One late answer of a busy storage ends no reads.
   */
  async whileStorageAnswers<Result>(read: () => Promise<Result>): Promise<Result> {
    if (this.#isStorageGone) throw storageLost();
    const { promise: gone, reject } = Promise.withResolvers<never>();
    this.#readers.add(reject);
    try {
      return await Promise.race([read(), gone]);
    } finally {
      this.#readers.delete(reject);
    }
  }

  get #isStorageGone(): boolean {
    const sinceMs = this.#storageLostSinceMs;
    return sinceMs !== undefined && this.#parts.monotonicMs() - sinceMs >= this.#parts.times.durationMs;
  }

  /**
   * The other replicas reach this one at `address`, a URL. `reachStorage` resolves when the storage has answered: a replica that
   * does not reach it cannot write, so it renews no lease, and others take over. Resolves when the replica is entered; throws what the
   * catalog throws.
   */
  async start(address: string, reachStorage: () => Promise<void>): Promise<void> {
    this.#entry = { address, reachStorage };
    await this.#renew();
    this.#renewLater();
  }

  /** Resolves when the lease is valid, which may be at once; throws what the catalog throws. */
  async ensure(): Promise<void> {
    if (this.isValid) return;
    if (this.#isClosed) throw leaseExpired();
    this.#ensuring ??= this.#renew().finally(() => {
      this.#ensuring = undefined;
    });
    await this.#ensuring;
    if (!this.isValid) throw leaseExpired();
  }

  /** From now on the others give this replica nothing to own. */
  async leave(): Promise<void> {
    this.#isLeaving = true;
    await this.#renew();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await Promise.allSettled(this.#underWay);
    await this.#parts.catalog.endLease(this.#parts.replica);
  }

  #renewLater(): void {
    if (this.#isClosed) return;
    this.#cancel = this.#parts.clock.schedule(this.#parts.times.renewEveryMs, () => {
      this.#renewLater();
      // A renewal that hangs on a lost connection must not keep the next one, on another connection, from being tried.
      if (this.#underWay.size >= 3) return;
      const renewal = this.#renew().catch((error: unknown) => {
        this.#parts.logger.warn({ error, isValid: this.isValid }, 'the lease of this replica could not be renewed');
      });
      this.#underWay.add(renewal);
      void renewal.then(() => this.#underWay.delete(renewal));
    });
  }

  async #renew(): Promise<void> {
    const { catalog, monotonicMs, replica, times, renewed } = this.#parts;
    if (this.#entry === undefined) return;
    const { address, reachStorage } = this.#entry;
    if (!this.#isLeaving && !(await this.#isReached(reachStorage))) {
      this.#replicas = await catalog.liveReplicas(); // of which this one is none soon, so that it forwards to the others
      throw storageLost();
    }
    const { durationMs, marginMs } = times;
    const sentAtMs = monotonicMs();
    await catalog.renewLease({ replica, address, durationMs, isLeaving: this.#isLeaving });
    const hadExpired = monotonicMs() >= this.#validUntilMs;
    this.#validUntilMs = Math.max(this.#validUntilMs, sentAtMs + durationMs - marginMs);
    this.#replicas = await catalog.liveReplicas();
    this.#sharedAddress.look(address, this.#replicas, monotonicMs());
    renewed(hadExpired);
  }

  async #isReached(reachStorage: ReplicaEntry['reachStorage']): Promise<boolean> {
    const askedAtMs = this.#parts.monotonicMs();
    const { promise: tooLate, resolve } = Promise.withResolvers<boolean>();
    // A storage that answers later is not reached.
    const cancel = this.#parts.clock.schedule(2_000, () => resolve(false));
    const answer = reachStorage().then(
      () => true,
      () => false,
    );
    try {
      const isReached = await Promise.race([answer, tooLate]);
      this.#noteStorage(isReached, askedAtMs);
      return isReached;
    } finally {
      cancel();
    }
  }

  #noteStorage(isReached: boolean, askedAtMs: number): void {
    if (askedAtMs < this.#askedStorageAtMs) return;
    this.#askedStorageAtMs = askedAtMs;
    this.#storageLostSinceMs = isReached ? undefined : (this.#storageLostSinceMs ?? askedAtMs);
    if (this.#isStorageGone) for (const end of this.#readers) end(storageLost());
  }
}

const storageLost = (): LancegateError =>
  new LancegateError('StorageUnavailable', 'the storage does not answer this replica; nothing was written', {
    retryAfterSeconds: 1,
  });

const leaseExpired = (): LancegateError =>
  new LancegateError('CatalogUnavailable', 'the catalog has not answered this replica lately; nothing was written', {
    retryAfterSeconds: 1,
  });

interface SharedAddressParts {
  readonly replica: string;
  readonly logger: Pick<Logger, 'error'>;
  /** The lease of a predecessor on the same address that died is over by then. */
  readonly leaseMs: number;
}

/**
 * Notices another living replica with the address of this one: what is sent to either of them may reach the other, which refuses it.
 * Each such replica is named once.
 */
class SharedAddress {
  readonly #parts: SharedAddressParts;
  /** It says, by id, since when a living replica is known. */
  #seen: ReadonlyMap<string, { readonly sinceMs: number; readonly isNamed: boolean }> = new Map();

  constructor(parts: SharedAddressParts) {
    this.#parts = parts;
  }

  look(address: string, replicas: readonly Replica[], nowMs: number): void {
    const { replica, leaseMs, logger } = this.#parts;
    const origin = originOf(address);
    const others = replicas.filter(
      (each) => each.id !== replica && !each.isLeaving && originOf(each.address) === origin,
    );
    const seen = new Map(others.map(({ id }) => [id, this.#seen.get(id) ?? { sinceMs: nowMs, isNamed: false }]));
    for (const [id, { sinceMs, isNamed }] of seen) {
      if (isNamed || nowMs - sinceMs <= leaseMs) continue;
      seen.set(id, { sinceMs, isNamed: true });
      logger.error(
        { address, replica, otherReplica: id },
        'another living replica has the address of this one, so that requests for the tables of either are refused: each needs an --advertise of its own',
      );
    }
    this.#seen = seen;
  }
}

const originOf = (address: string): string => URL.parse(address)?.origin ?? address;
