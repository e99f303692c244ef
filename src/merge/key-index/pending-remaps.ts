import type { AddressRemap, RowAddress } from '../../engine/port/row-address.ts';

interface Move {
  readonly moved: AddressRemap;
  /** How many were added before. */
  readonly order: number;
}

/**
 * Remaps of rows that have yet to be put down for the keys they concern. Who looks for a row follows them, at the price of one
 * lookup more, however many they are: a fragment gives way once, and no other has its number again.
 */
export class PendingRemaps implements Pick<AddressRemap, 'hasMoved' | 'placeOf'> {
  readonly #moves: Move[] = [];
  readonly #ofFragment = new Map<number, Move>();
  #added = 0;

  get count(): number {
    return this.#moves.length;
  }

  /** Moved twice, a row counts twice. */
  get rows(): number {
    return this.#moves.reduce((sum, { moved }) => sum + moved.rows, 0);
  }

  get bytes(): number {
    return this.#moves.reduce((sum, { moved }) => sum + moved.bytes, 0);
  }

  add(moved: AddressRemap): void {
    const move = { moved, order: this.#added };
    this.#added += 1;
    this.#moves.push(move);
    for (const fragment of moved.fragments()) this.#ofFragment.set(fragment, move);
  }

  hasMoved(fragment: number): boolean {
    return this.#ofFragment.has(fragment);
  }

  /** Where a row is that was at this place before any of them, or after some; undefined where it was gone by then. */
  placeOf(place: RowAddress): RowAddress | undefined {
    let now: RowAddress | undefined = place;
    let next = this.#ofFragment.get(place.fragment);
    for (let last = -1; next !== undefined && next.order > last; ) {
      last = next.order;
      now = next.moved.placeOf(now);
      if (now === undefined) return undefined;
      next = this.#ofFragment.get(now.fragment);
    }
    return now;
  }

  /** The oldest so many are put down everywhere. */
  forgetOldest(count: number): void {
    for (const move of this.#moves.splice(0, count)) {
      for (const fragment of move.moved.fragments()) {
        if (this.#ofFragment.get(fragment) === move) this.#ofFragment.delete(fragment);
      }
    }
  }
}
