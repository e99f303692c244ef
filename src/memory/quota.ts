import { LancegateError } from '../kernel/errors.ts';

/** An owner that may have a share of a quota and no more, such as a principal or a table. */
export interface Holder {
  readonly name: string;
  /** What it is called in a refusal. */
  readonly kind: 'principal' | 'table';
  /** Its part of the whole, above 0 and at most 1. */
  readonly share: number;
}

/**
 * An amount that many draw from, each up to a fixed part of it (P7, P10). Fixed parts leave some idle where one holder is
 * alone; in return no holder finds everything taken by one other, and what a holder can have does not depend on who else
 * comes. Several holders that work together can still take all of it.
 */
export class Quota {
  readonly max: number;
  readonly #what: string;
  readonly #heldBy = new Map<string, number>();
  readonly #refusals = new Map<string, LancegateError>();
  #held = 0;

  /** `what` completes "too many …" in a refusal. */
  constructor(max: number, what: string) {
    this.max = max;
    this.#what = what;
  }

  get held(): number {
    return this.#held;
  }

  /** What these holders together could have if no other had anything. */
  largestFor(holders: readonly Holder[]): number {
    return Math.min(this.max, ...holders.map((holder) => this.#partOf(holder)));
  }

  /** `SlowDown` where `amount` does not fit now. Takes nothing. */
  requireRoom(amount: number, holders: readonly Holder[]): void {
    if (this.#held + amount > this.max) throw this.#full('at the same time');
    for (const holder of holders) {
      const held = this.#heldBy.get(holder.name) ?? 0;
      if (held + amount > this.#partOf(holder)) throw this.#full(`of this ${holder.kind} at the same time`);
    }
  }

  take(amount: number, holders: readonly Holder[]): void {
    this.requireRoom(amount, holders);
    this.#add(amount, holders);
  }

  giveBack(amount: number, holders: readonly Holder[]): void {
    this.#add(-amount, holders);
  }

  #add(amount: number, holders: readonly Holder[]): void {
    this.#held += amount;
    for (const { name } of holders) {
      const held = (this.#heldBy.get(name) ?? 0) + amount;
      if (held === 0) this.#heldBy.delete(name);
      else this.#heldBy.set(name, held);
    }
  }

  #partOf({ share }: Holder): number {
    return Math.max(1, Math.floor(this.max * share));
  }

  /** One error for each text, of which there are three: its stack says nothing, and takes 10 us each time. */
  #full(whose: string): LancegateError {
    const known = this.#refusals.get(whose);
    if (known !== undefined) return known;
    const refusal = new LancegateError('SlowDown', `too many ${this.#what} ${whose}`, { retryAfterSeconds: 1 });
    this.#refusals.set(whose, refusal);
    return refusal;
  }
}
