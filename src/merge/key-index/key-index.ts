import { setImmediate } from 'node:timers/promises';
import type { RowsOf } from '../../arrow/column/concat-rows.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Dataset } from '../../engine/port/engine.ts';
import {
  type AddressRemap,
  addressesIn,
  addressOf,
  type LiveRows,
  type Replaced,
  type RowAddress,
} from '../../engine/port/row-address.ts';
import { type KeyDigests, type KeyHasher, textOfDigest } from '../../keys/key-hasher.ts';
import { type KeySet, KeyTable } from '../../keys/key-table.ts';
import type { KeyHold } from '../../memory/key-quota.ts';
import type { MergeRequest } from '../batch.ts';
import { eachRow } from './key-lookup.ts';

/** So many rows are read by their addresses, 20 ms of a turn at most; of more, their fragments are. */
const mostRowsTaken = 20_000;
const rowsPerCheck = 65_536;
/**
 * To put moves down takes a look at every key, 20 ns each: a tenth of the event loop's time for four million, at each of the
 * moves that a busy table has every second. So it is done once they concern this part of the rows, or are many.
 */
const mostMovedPart = 1 / 2;
const mostMoves = 16;

/** Of keys that have several rows, all but one each; more would take memory that other keys need (P7). */
const mostSurplusRows = 50_000;
/** Of one of those, with the key and its list. Measured. */
const bytesPerSurplusRow = 200;

/**
 * Why the index cannot be kept: too many keys have several rows; there is no room; another program has changed rows in another
 * way than by deleting and adding them.
 */
export type Unknowable = 'keys twice' | 'no room' | 'changed';

/** The rows of the keys of a set, by their numbers. */
export class FoundRows {
  /** One row of each key that has any. */
  readonly rows = new Map<number, RowAddress>();
  /** The other rows of keys that have several. */
  readonly surplus = new Map<number, readonly RowAddress[]>();

  numRows(key: number): number {
    return this.rows.has(key) ? 1 + (this.surplus.get(key)?.length ?? 0) : 0;
  }
}

/**
 * Where the rows with each key of one table branch are. A look-up has two steps: the address that was last seen with the key,
 * and whether a row is there still (`LiveRows`). So nothing need be noted here when rows are deleted; only fragments that
 * other programs brought are read.
 *
 * It is exact, or it is nothing: a step that cannot be sure says so, and the index is given up (P2). A key has one row, or
 * several where another program has doubled it.
 */
export class KeyIndex {
  readonly on: readonly FieldPath[];
  readonly lineage: symbol;
  readonly tracked: LiveRows;
  readonly #places = new KeyTable();
  readonly #hasher: KeyHasher;
  readonly #hold: KeyHold;
  /** Whether a commit has been made by it. */
  isUsed = false;
  /** The rows that were seen with a key beside that in the table, by the key's digest. */
  readonly #surplus = new Map<string, readonly RowAddress[]>();
  #surplusRows = 0;
  /** Fragments whose keys are yet to be read. */
  #unread: ReadonlySet<number> = new Set();
  /** Addresses in the table may still be those of before. */
  readonly #moves = new PendingRemaps();
  #isSweeping = false;
  #isReleased = false;

  constructor(
    dataset: Dataset,
    on: readonly FieldPath[],
    tracked: LiveRows,
    { hasher, hold }: { hasher: KeyHasher; hold: KeyHold },
  ) {
    this.on = on;
    this.lineage = dataset.lineage;
    this.tracked = tracked;
    this.#hasher = hasher;
    this.#hold = hold;
  }

  /** Rows whose keys are yet to be read. */
  get unreadRows(): number {
    return [...this.#unread].reduce((sum, id) => sum + this.tracked.countRows(id), 0);
  }

  /** Moves on to a newer version; what came since then is unread. */
  follow(version: number): Unknowable | undefined {
    if (version === this.tracked.version) return undefined;
    const isFirst = this.tracked.version === 0;
    const { isKnown, added, moved } = this.tracked.advance(version);
    if (!isKnown && !isFirst) return 'changed';
    if (moved !== undefined) this.#moves.add(moved);
    const elsewhere = [...this.#unread].flatMap((id) => moved?.fragmentsOf(id) ?? []);
    this.#unread = new Set([...this.#unread, ...elsewhere, ...added].filter((id) => this.tracked.hasFragment(id)));
    void this.#sweep();
    return undefined;
  }

  /** To be called with a dataset that stands at the version of `tracked`. What it reads has to be as many rows as there are. */
  async readRest(dataset: Dataset): Promise<Unknowable | undefined> {
    const ids = [...this.#unread];
    if (ids.length === 0) return undefined;
    const rows = this.unreadRows;
    const addresses = rows <= mostRowsTaken ? this.#addressesIn(ids) : undefined;
    const from = addresses === undefined ? { where: addressesIn(ids) } : { at: addresses };
    let problem: Unknowable | undefined;
    let seen = 0;
    await eachRow(dataset, { on: this.on, hasher: this.#hasher }, from, (digests, row, address) => {
      seen += 1;
      if (row !== undefined) problem = this.#learn(digests, row, address);
      problem ??= seen % rowsPerCheck === 0 ? this.#checkRoom() : undefined;
      return problem === undefined;
    });
    if (problem !== undefined) return problem;
    if (seen !== rows) return 'changed';
    this.#unread = new Set();
    return this.#checkRoom();
  }

  /** At the version of `tracked`. */
  find({ digests, size }: KeySet): FoundRows {
    this.#hold.touch();
    const found = new FoundRows();
    for (let key = 0; key < size; key++) {
      const row = this.#rowNow(this.#places.find(digests, key));
      const others = this.#surplus.size > 0 ? this.#surplusNow(textOfDigest(digests, key), row) : [];
      const first = row ?? others.shift();
      if (first !== undefined) found.rows.set(key, first);
      if (others.length > 0) found.surplus.set(key, others);
    }
    return found;
  }

  /** Notes where the rows of a batch came to be, which the engine wrote in this order. Of each key they are the only rows. */
  replaced(
    { fragments }: Replaced,
    requests: readonly MergeRequest[],
    parts: readonly RowsOf[],
  ): Unknowable | undefined {
    this.isUsed = true;
    const rest = fragments.values();
    let { value: fragment } = rest.next();
    let offset = 0;
    for (const [index, { keys, digests }] of requests.entries()) {
      const keep = parts[index]?.keep;
      for (let row = 0; row < keys.rows; row++) {
        if (keep !== undefined && keep[row] === 0) continue;
        while (fragment !== undefined && offset >= fragment.rows) {
          fragment = rest.next().value;
          offset = 0;
        }
        if (fragment === undefined) return 'changed';
        if (!keys.isNull(row)) this.#setOnly(digests, row, { fragment: fragment.id, offset });
        offset += 1;
      }
    }
    return this.#checkRoom();
  }

  release(): void {
    this.#isReleased = true;
    this.#hold.release();
  }

  #setOnly(digests: KeyDigests, key: number, row: RowAddress): void {
    this.#places.set(digests, key, row);
    if (this.#surplus.size > 0) this.#setSurplus(textOfDigest(digests, key), []);
  }

  #learn(digests: KeyDigests, key: number, row: RowAddress): Unknowable | undefined {
    const before = this.#rowNow(this.#places.set(digests, key, row));
    if (before !== undefined && !isSame(before, row)) {
      const digest = textOfDigest(digests, key);
      this.#setSurplus(digest, [before, ...this.#surplusNow(digest, before)]);
    }
    return this.#surplusRows > mostSurplusRows ? 'keys twice' : undefined;
  }

  #setSurplus(key: string, rows: readonly RowAddress[]): void {
    this.#surplusRows += rows.length - (this.#surplus.get(key)?.length ?? 0);
    if (rows.length === 0) this.#surplus.delete(key);
    else this.#surplus.set(key, rows);
  }

  #surplusNow(key: string, except: RowAddress | undefined): RowAddress[] {
    const rows = (this.#surplus.get(key) ?? []).flatMap((row) => this.#rowNow(row) ?? []);
    return rows.filter((row) => except === undefined || !isSame(row, except));
  }

  #addressesIn(ids: readonly number[]) {
    return ids.flatMap((id) => [...this.tracked.rowsOf(id)].map(addressOf));
  }

  /** Where a row is now that was seen there; undefined where it is gone. */
  #rowNow(place: RowAddress | undefined): RowAddress | undefined {
    const now = place && this.#moves.placeOf(place);
    return now !== undefined && this.tracked.has(now) ? now : undefined;
  }

  get #isTimeToSweep(): boolean {
    return this.#moves.count >= mostMoves || this.#moves.rows > this.#places.size * mostMovedPart;
  }

  /**
   * Puts down where rows were moved to, so that the moves can be forgotten: beside all else, a part of the keys at a time. Until
   * then whoever looks for a key follows them, which is as right before as after.
   */
  async #sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    while (this.#isTimeToSweep && !this.#isReleased) {
      const done = this.#moves.count;
      for (const _ of this.#places.moveAll(this.#moves)) {
        if (this.#isReleased) return;
        await setImmediate();
      }
      for (const key of [...this.#surplus.keys()]) this.#setSurplus(key, this.#surplusNow(key, undefined));
      this.#moves.forgetOldest(done);
    }
    this.#isSweeping = false;
  }

  #checkRoom(): Unknowable | undefined {
    const bytes = this.#places.bytes + this.#surplusRows * bytesPerSurplusRow;
    return this.#hold.resize(bytes + this.tracked.bytes + this.#moves.bytes) ? undefined : 'no room';
  }
}

const isSame = (a: RowAddress, b: RowAddress): boolean => a.fragment === b.fragment && a.offset === b.offset;

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
