import { type LancegateError, queueIsFull } from './errors.ts';
import { onAbort, reasonOf } from './request-scope.ts';

interface FairQueueLimits {
  /** How many requests may have a slot at the same time. */
  readonly slots: number;
  /** How many requests may wait for one. */
  readonly maxWaiting: number;
  /** The part of the slots, for each kind of work, and of the queue, that one principal can have; above 0 and at most 1. */
  readonly principalShare: number;
  /** Names in refusals what waits, in the plural. */
  readonly waiters: string;
}

/** It asks for a slot. No kind of work has more than three quarters of the slots, so each of two kinds gets some. */
export interface Seeker {
  readonly principal: string;
  readonly work: string;
}

interface WaitingSeeker extends Seeker {
  readonly grant: () => void;
}

/**
 * A bounded queue for a few slots that serves principals in rotation (P7, P10). A principal has a fixed part of the slots for each
 * kind of work, and of three slots or more not all, unless its share is all of them. So work that takes long keeps out neither
 * other principals nor its own principal's work of the other kind. The requests of one principal keep their order, except that
 * one whose part is taken lets the other kind pass.
 */
export class FairQueue {
  readonly #limits: FairQueueLimits;
  readonly #held = new Map<string, number>();
  /** Each principal has one, the next one first. None is empty. */
  readonly #lanes = new Map<string, WaitingSeeker[]>();
  #running = 0;
  #waiting = 0;

  constructor(limits: FairQueueLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Resolves to the release function, which may be called more than once. Throws `SlowDown` if too many wait, and the
   * signal's reason if that aborts first.
   */
  take(seeker: Seeker, signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return Promise.reject(reasonOf(signal));
    if (!this.#lanes.has(seeker.principal) && this.#hasRoom(seeker)) return Promise.resolve(this.#enter(seeker));
    const refusal = this.#refusal(seeker);
    return refusal === undefined ? this.#wait(seeker, signal) : Promise.reject(refusal);
  }

  /** Says whether a request that waits, of anybody or of other principals, would have the slot of this one if it were given back. */
  isSlotWanted(holder: Seeker, by: 'anybody' | 'others'): boolean {
    for (const [principal, lane] of this.#lanes) {
      if (by === 'others' && principal === holder.principal) continue;
      if (lane.some((waiter) => this.#hasRoom(waiter, holder))) return true;
    }
    return false;
  }

  #wait(seeker: Seeker, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const stopListening = onAbort(signal, () => {
        this.#remove(waiter);
        reject(reasonOf(signal));
      });
      const waiter: WaitingSeeker = {
        ...seeker,
        grant: () => {
          stopListening();
          resolve(this.#enter(seeker));
        },
      };
      const lane = this.#lanes.get(seeker.principal);
      if (lane === undefined) this.#lanes.set(seeker.principal, [waiter]);
      else lane.push(waiter);
      this.#waiting += 1;
      // Its own lane may be blocked by the other kind of work.
      this.#grant();
    });
  }

  #refusal({ principal }: Seeker): LancegateError | undefined {
    const { maxWaiting, principalShare, waiters } = this.#limits;
    const own = this.#lanes.get(principal)?.length ?? 0;
    if (own >= partOf(maxWaiting, principalShare)) return queueIsFull(`${waiters} of this principal`);
    return this.#waiting >= maxWaiting ? queueIsFull(waiters) : undefined;
  }

  /** `leaving`: counts as if it had no slot any more. */
  #hasRoom({ principal, work }: Seeker, leaving?: Seeker): boolean {
    const { slots, principalShare } = this.#limits;
    const own = partOf(slots, principalShare);
    const left = (isOf: boolean): number => (isOf ? 1 : 0);
    const isOfPrincipal = leaving?.principal === principal;
    const isOfWork = leaving?.work === work;
    return (
      this.#running - left(leaving !== undefined) < slots &&
      this.#heldBy(principalName(principal)) - left(isOfPrincipal) < Math.max(2, own, slots - 1) &&
      this.#heldBy(ownName({ principal, work })) - left(isOfPrincipal && isOfWork) < own &&
      this.#heldBy(workName(work)) - left(isOfWork) < partOf(slots, 0.75)
    );
  }

  #enter({ principal, work }: Seeker): () => void {
    const holders = [principalName(principal), ownName({ principal, work }), workName(work)];
    this.#running += 1;
    for (const name of holders) this.#held.set(name, this.#heldBy(name) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#running -= 1;
      for (const name of holders) {
        const held = this.#heldBy(name) - 1;
        if (held === 0) this.#held.delete(name);
        else this.#held.set(name, held);
      }
      this.#grant();
    };
  }

  #grant(): void {
    let next = this.#next();
    while (next !== undefined) {
      this.#remove(next);
      this.#putLast(next.principal);
      next.grant();
      next = this.#next();
    }
  }

  /** Returns the first request, principals in rotation, that may have a slot now. */
  #next(): WaitingSeeker | undefined {
    for (const lane of this.#lanes.values()) {
      const found = lane.find((waiter) => this.#hasRoom(waiter));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #remove(waiter: WaitingSeeker): void {
    const lane = this.#lanes.get(waiter.principal) ?? [];
    lane.splice(lane.indexOf(waiter), 1);
    this.#waiting -= 1;
    if (lane.length === 0) this.#lanes.delete(waiter.principal);
  }

  #putLast(principal: string): void {
    const lane = this.#lanes.get(principal);
    if (lane === undefined) return;
    this.#lanes.delete(principal);
    this.#lanes.set(principal, lane);
  }

  #heldBy(name: string): number {
    return this.#held.get(name) ?? 0;
  }
}

const principalName = (principal: string): string => `principal ${principal}`;
const ownName = ({ principal, work }: Seeker): string => `${workName(work)} of ${principal}`;
const workName = (work: string): string => `work ${work}`;
const partOf = (whole: number, share: number): number => Math.max(1, Math.floor(whole * share));
