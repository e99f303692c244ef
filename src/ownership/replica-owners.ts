/**
 * Ownership where several replicas share a catalog: who owns a name is a row there, and a replica's rows hold as long as its lease.
 * Names are claimed when they are first written to, by the replica that all agree on (`chosenFor`), or by the one that a request was
 * forwarded to. They stay there, unless another replica needs them for a work, or this one owns more than its share, or leaves.
 *
 * A replica that was frozen and finds its names unclaimed goes on. Otherwise `confirm`, or the check in the transaction that
 * records, tells it that a name is lost, and what it had begun is not committed, or not acknowledged.
 */
import { LRUCache } from 'lru-cache';
import { writerMoved } from '../catalog/refusals.ts';
import type { NameOwner, OwnerCatalog, Replica, ReplicaCatalog } from '../catalog/replica-port.ts';
import { type Clock, untilPassed } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { showTable, type TableRef } from '../kernel/ids.ts';
import { firstOf } from '../kernel/request-scope.ts';
import {
  type OwnedWork,
  type Owner,
  type OwnerQuestion,
  type ReplicaAddress,
  self,
  type TableOwners,
} from '../table/table-owners.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type HandOver, Handovers, handOversAtOnce } from './handovers.ts';
import { type HeldName, keyOf, type NamesHere } from './names-here.ts';
import { chosenFor, successorsOfSurplus } from './placement.ts';
import { type LeaseTimes, leaseTimes, type MonotonicClock, ReplicaLease } from './replica-lease.ts';

interface OwnersDeps {
  readonly catalog: OwnerCatalog & ReplicaCatalog;
  /** The catalog checks changes against these. */
  readonly names: NamesHere;
  readonly clock: Clock;
  readonly monotonicMs: MonotonicClock;
  readonly logger: Logger;
  readonly times?: LeaseTimes;
}

/** A name stays where it was claimed this long, for the work that it was claimed for. */
const keptForMs = 5_000;

export class ReplicaOwners implements TableOwners {
  readonly #deps: OwnersDeps;
  readonly #lease: ReplicaLease;
  readonly #held = new Map<string, HeldName>();
  readonly #handovers: Handovers;
  /** Other replicas own these names. */
  readonly #believed: LRUCache<string, NameOwner>;
  #work: OwnedWork | undefined;
  #round: Promise<void> | undefined;
  #rounds = 0;
  #isClosed = false;

  constructor(deps: OwnersDeps) {
    this.#deps = deps;
    this.#handovers = new Handovers(deps, this.#held);
    const { monotonicMs, names, times = leaseTimes } = deps;
    this.#believed = new LRUCache({
      max: 8_192,
      // This replica believes for a second that another one owns a name.
      ttl: 1_000,
      perf: { now: monotonicMs },
      ttlResolution: 0,
    });
    this.#lease = new ReplicaLease({
      ...deps,
      replica: names.replica,
      times,
      renewed: (hadExpired) => this.#renewed(hadExpired),
    });
  }

  async start(work: OwnedWork): Promise<void> {
    this.#work = work;
  }

  async join(address: string, reachStorage: () => Promise<void>): Promise<void> {
    await this.#lease.start(address, reachStorage);
  }

  requireStorage(): void {
    this.#lease.requireStorage();
  }

  whileStorageAnswers<Result>(read: () => Promise<Result>): Promise<Result> {
    return this.#lease.whileStorageAnswers(read);
  }

  others(): readonly ReplicaAddress[] {
    return this.#lease.replicas.filter(({ id }) => id !== this.#id);
  }

  async ownerOf(table: TableRef, question: OwnerQuestion): Promise<Owner> {
    const { mustClaim, mustExist = false, isRepeated = false } = question;
    const known = await this.#known(table, isRepeated);
    if (known !== undefined) return known;
    const owner = await this.#deps.catalog.findOwner(table);
    if (owner?.id === this.#id) return this.#claim(table); // another replica has given the name to this one
    if (owner !== undefined) return this.#believe(table, owner);
    if (mustExist && !(await this.#deps.catalog.isTaken(table))) return self;
    const chosen = chosenFor(table, this.#lease.replicas);
    const claimsHere = chosen?.id === this.#id || mustClaim || isRepeated;
    if (!claimsHere && chosen !== undefined) return asReplica(chosen);
    return this.#claim(table);
  }

  hold(table: TableRef): Promise<void> | undefined {
    if (this.isOwn(table) && this.#lease.isValid) return undefined;
    return this.#hold(table);
  }

  isOwn(table: TableRef): boolean {
    const status = this.#held.get(keyOf(table))?.status;
    return status === 'held' || status === 'closing';
  }

  async confirm(table: TableRef): Promise<void> {
    const { catalog, names } = this.#deps;
    const epoch = names.epochOf(table);
    if (epoch === undefined) throw writerMoved(table);
    if (await catalog.isOwner({ ref: table, epoch }, this.#id)) return;
    if (names.epochOf(table) === epoch) this.#lose(table);
    throw writerMoved(table);
  }

  /**
   * Names are kept in one order, the same in all replicas. A name that is had while an earlier one is missing may still be handed over,
   * so no two works wait for each other.
   */
  async acquire(tables: readonly TableRef[], signal: AbortSignal): Promise<Disposable> {
    const { catalog, clock, monotonicMs } = this.#deps;
    const untilMs = monotonicMs() + 10_000;
    using kept = new DisposableStack();
    const inOrder = tables.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
    let missing = this.#keepUpToMissing(inOrder, kept);
    let next: TableRef | undefined;
    for (;;) {
      await firstOf(Promise.all(missing.map((table) => this.#claim(table))), signal);
      missing = this.#keepUpToMissing(missing, kept);
      const [first] = missing;
      if (first === undefined) return kept.move();
      const isNearer = first !== next;
      next = first;
      if (monotonicMs() > untilMs || this.#successorOf(next) !== undefined) throw writerMoved(next);
      await catalog.wantNames(isNearer ? missing : [next], this.#id); // another work may have asked for it meanwhile
      await firstOf(untilPassed(clock, 100), signal);
    }
  }

  async leave(): Promise<void> {
    await this.#leaveLease();
    await this.#handOver([...this.#held.values()], 'if not busy');
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#round;
    await this.#leaveLease();
    await this.#handOver([...this.#held.values()], 'in any case');
    await this.#lease.close().catch((error: unknown) => {
      this.#deps.logger.warn({ error }, 'the lease of this replica could not be ended; it expires');
    });
  }

  async #leaveLease(): Promise<void> {
    await this.#lease.leave().catch((error: unknown) => {
      this.#deps.logger.warn({ error }, 'the catalog does not say that this replica ends');
    });
  }

  get #id(): string {
    return this.#deps.names.replica;
  }

  /** Answers where that needs no look into the catalog. */
  async #known(table: TableRef, isRepeated: boolean): Promise<Owner | undefined> {
    const held = await this.#steady(table);
    if (held !== undefined) return this.#lease.isValid ? self : undefined;
    const believed = isRepeated ? undefined : this.#believed.get(keyOf(table));
    return believed && asReplica(believed);
  }

  /** Returns what this replica holds of the name, once it is neither being claimed nor handed over. */
  async #steady(table: TableRef): Promise<HeldName | undefined> {
    for (;;) {
      const held = this.#held.get(keyOf(table));
      if (held === undefined || held.status === 'held') return held;
      await held.steady;
    }
  }

  #believe(table: TableRef, owner: NameOwner): Owner {
    this.#believed.set(keyOf(table), owner);
    return asReplica(owner);
  }

  async #hold(table: TableRef): Promise<void> {
    await this.#lease.ensure();
    if ((await this.#steady(table)) !== undefined) return;
    const owner = await this.#claim(table);
    if (owner.kind !== 'self') throw writerMoved(table);
  }

  /** Returns the first name that is not held, and those after it. */
  #keepUpToMissing(tables: readonly TableRef[], kept: DisposableStack): readonly TableRef[] {
    for (const [index, table] of tables.entries()) {
      const held = this.#held.get(keyOf(table));
      if (held?.status !== 'held') return tables.slice(index);
      held.works += 1;
      kept.defer(() => {
        held.works -= 1;
      });
    }
    return [];
  }

  async #claim(table: TableRef): Promise<Owner> {
    await this.#lease.ensure();
    const key = keyOf(table);
    if ((await this.#steady(table)) !== undefined) return self;
    const successor = this.#successorOf(table);
    if (successor !== undefined) return asReplica(successor);
    if (this.#held.has(key)) return this.#claim(table); // another request was first
    const { promise: steady, resolve } = Promise.withResolvers<void>();
    const held: HeldName = { table, status: 'claiming', steady, sinceMs: this.#deps.monotonicMs(), works: 0 };
    this.#held.set(key, held);
    try {
      const other = await this.#claimInCatalog(table);
      if (other !== undefined) return this.#believe(table, other);
      held.status = 'held';
      return self;
    } finally {
      if (held.status === 'claiming') this.#held.delete(key);
      resolve();
    }
  }

  /** A replica that leaves claims nothing, also not for what waited while it handed a name over, unless none would stay. */
  #successorOf(table: TableRef): Replica | undefined {
    if (!this.#lease.isLeaving) return undefined;
    const others = this.#lease.replicas.filter(({ id }) => id !== this.#id);
    return chosenFor(table, others);
  }

  /** Returns who owns the name, if another replica does. */
  async #claimInCatalog(table: TableRef): Promise<NameOwner | undefined> {
    const { catalog, names, logger } = this.#deps;
    const claim = await catalog.claimName(table, this.#id);
    if ('id' in claim) return claim;
    const name = { ref: table, epoch: claim.epoch };
    this.#believed.delete(keyOf(table));
    try {
      await this.#owned.forget(table); // before what was begun in an earlier epoch can be confirmed in this one
      names.add(name);
      if (!claim.isSettled) await this.#owned.takeOver(table);
      logger.debug({ table: showTable(table), ...claim }, 'this replica writes to a table from now on');
      return undefined;
    } catch (error) {
      names.remove(table);
      await catalog.releaseName(name, this.#id, false).catch(() => undefined); // it is claimed again, with another epoch
      throw error;
    }
  }

  get #owned(): OwnedWork {
    if (this.#work === undefined) throw new LancegateError('Internal', 'ownership has not been started');
    return this.#work;
  }

  #lose(table: TableRef): void {
    this.#held.delete(keyOf(table));
    this.#deps.names.remove(table);
    this.#deps.logger.warn({ table: showTable(table) }, 'another replica has taken over a table');
  }

  #handOver(names: readonly HeldName[], how: HandOver, successor?: string): Promise<void> {
    return this.#handovers.handOver(names, how, this.#owned, successor);
  }

  #renewed(hadExpired: boolean): void {
    if (this.#round !== undefined || this.#isClosed) return;
    this.#round = this.#runRound(hadExpired)
      .catch((error: unknown) => this.#deps.logger.warn({ error }, 'ownership could not be looked after'))
      .finally(() => {
        this.#round = undefined;
      });
  }

  /** A replica does this each second besides its requests. */
  async #runRound(hadExpired: boolean): Promise<void> {
    const { catalog } = this.#deps;
    if (hadExpired) await this.#loseClaimed();
    const wanted = await catalog.namesOf(this.#id, 'wanted');
    for (const { ref } of wanted) if (!this.#held.has(keyOf(ref))) await this.#claim(ref);
    const held = wanted.flatMap(({ ref }) => this.#held.get(keyOf(ref)) ?? []);
    await this.#handOver(held, 'if not busy');
    await this.#moveSurplus();
    this.#rounds += 1;
    if (this.#rounds % 3 !== 0 || this.#lease.isLeaving) return;
    await this.#takeOverLeft();
    await this.#leaveUnused();
    await catalog.forgetEndedReplicas();
  }

  /** The lease had expired, so others may have claimed names of this replica. */
  async #loseClaimed(): Promise<void> {
    const { catalog, names } = this.#deps;
    const before = new Map([...this.#held].map(([key, { table }]) => [key, names.epochOf(table)]));
    const owned = new Map((await catalog.namesOf(this.#id, 'all')).map(({ ref, epoch }) => [keyOf(ref), epoch]));
    for (const [key, epoch] of before) {
      const held = this.#held.get(key);
      const isSame = held !== undefined && names.epochOf(held.table) === epoch && held.status === 'held';
      if (isSame && owned.get(key) !== epoch) this.#lose(held.table);
    }
  }

  /** Moves what this replica owns beyond its share: four names at a time, and those that are written to only after a while. */
  async #moveSurplus(): Promise<void> {
    const { replicas, isLeaving } = this.#lease;
    if (isLeaving || replicas.length < 2) return;
    const successors = successorsOfSurplus(this.#id, await this.#deps.catalog.countNames(), replicas);
    const nowMs = this.#deps.monotonicMs();
    let moves = 0;
    for (const [key, held] of [...this.#held].slice(0, 256)) {
      if (moves >= Math.min(4, successors.length)) return;
      if (this.#held.get(key) !== held || held.status !== 'held') continue;
      this.#held.delete(key); // the others are looked at next
      this.#held.set(key, held);
      const heldForMs = nowMs - held.sinceMs;
      if (heldForMs < keptForMs) continue;
      // Then it moves from a replica with a surplus while it is idle, and after this time also while it is written to.
      await this.#handOver([held], heldForMs > 15_000 ? 'if not busy' : 'if idle', successors[moves]);
      moves += 1;
    }
  }

  /** Names of dropped tables, and of tables that were never made. What they take in the catalog goes too. */
  async #leaveUnused(): Promise<void> {
    const { catalog, monotonicMs } = this.#deps;
    const unused = (await catalog.namesOf(this.#id, 'unused')).flatMap(({ ref }) => this.#held.get(keyOf(ref)) ?? []);
    const nowMs = monotonicMs();
    const old = unused.filter(({ sinceMs }) => nowMs - sinceMs >= keptForMs).slice(0, handOversAtOnce);
    await this.#handOver(old, 'if idle');
    await catalog.forgetUnusedNames();
  }

  /** Takes over what replicas left that are gone, although no request has asked for it. */
  async #takeOverLeft(): Promise<void> {
    const { catalog, logger } = this.#deps;
    for (const table of await catalog.unsettledNames(32)) {
      if (this.#isClosed || chosenFor(table, this.#lease.replicas)?.id !== this.#id) continue;
      await this.#claim(table).catch((error: unknown) => {
        logger.warn({ table: showTable(table), error }, 'a table could not be taken over; this replica tries again');
      });
    }
  }
}

const asReplica = ({ id, address }: NameOwner): Owner => ({ kind: 'replica', id, address });
