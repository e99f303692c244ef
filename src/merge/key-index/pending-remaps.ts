import type { AddressRemap, RowAddress } from '../../keys/address-remap.ts';

interface Pending {
  readonly remap: AddressRemap;
  /** How many were added before. */
  readonly order: number;
}

/**
 * Remaps that are yet to be applied to the table of addresses. A look-up follows them, at the price of one more step, however many
 * they are: a fragment gives way once, and no other has its id again.
 */
export class PendingRemaps implements Pick<AddressRemap, 'hasMoved' | 'newAddressOf'> {
  readonly #pending: Pending[] = [];
  readonly #ofFragment = new Map<number, Pending>();
  #added = 0;

  get count(): number {
    return this.#pending.length;
  }

  /** A row that moved twice counts twice. */
  get rows(): number {
    return this.#pending.reduce((sum, { remap }) => sum + remap.rows, 0);
  }

  get bytes(): number {
    return this.#pending.reduce((sum, { remap }) => sum + remap.bytes, 0);
  }

  add(remap: AddressRemap): void {
    const pending = { remap, order: this.#added };
    this.#added += 1;
    this.#pending.push(pending);
    for (const fragment of remap.fragments()) this.#ofFragment.set(fragment, pending);
  }

  hasMoved(fragment: number): boolean {
    return this.#ofFragment.has(fragment);
  }

  /** Where a row is that had this address before any of the remaps, or after some; undefined where it was gone by then. */
  newAddressOf(address: RowAddress): RowAddress | undefined {
    let now: RowAddress | undefined = address;
    let next = this.#ofFragment.get(address.fragment);
    for (let last = -1; next !== undefined && next.order > last; ) {
      last = next.order;
      now = next.remap.newAddressOf(now);
      if (now === undefined) return undefined;
      next = this.#ofFragment.get(now.fragment);
    }
    return now;
  }

  /** The oldest `count` are applied to every address. */
  forgetOldest(count: number): void {
    for (const pending of this.#pending.splice(0, count)) {
      for (const fragment of pending.remap.fragments()) {
        if (this.#ofFragment.get(fragment) === pending) this.#ofFragment.delete(fragment);
      }
    }
  }
}
