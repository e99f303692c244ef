import { setImmediate } from 'node:timers/promises';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Dataset } from '../../engine/port/engine.ts';
import {
  addressesIn,
  addressOf,
  type LiveRows,
  type Replaced,
  type RowAddress,
} from '../../engine/port/row-address.ts';
import type { CanonicalKey } from '../../keys/key-columns.ts';
import type { KeyDigest } from '../../keys/key-digest.ts';
import { KeyTable } from '../../keys/key-table.ts';
import type { KeyHold } from '../../memory/key-quota.ts';
import type { MergeRequest } from '../merge-request.ts';
import type { SharedRows } from '../queue/batch.ts';
import { eachPlace } from './key-lookup.ts';
import { PendingRemaps } from './pending-remaps.ts';

/** So many rows are read by their addresses, 20 ms of a turn at most; of more, their fragments are. */
const mostRowsTaken = 20_000;
const rowsPerCheck = 65_536;
/**
 * To put moves down takes a look at every key, 20 ns each: a tenth of the event loop's time for four million, at each of the
 * moves that a busy table has every second. So it is done once they concern this part of the rows, or are many.
 */
const mostMovedPart = 1 / 2;
const mostMoves = 16;

/**
 * Why places are not known: a key has several rows; there is no room; somebody has changed rows in another way than by
 * deleting and adding them.
 */
export type Unknowable = 'key twice' | 'no room' | 'changed';

/**
 * Where the row with each key of one table branch is stored. A place is looked up in two steps: what was last heard of the key,
 * and whether there still is a row at that place (`LiveRows`). So what deletes rows need not be told here at all; only
 * fragments whose rows nobody has told of have to be read.
 *
 * It is exact, or it is nothing: every step that cannot be sure says so, and all of it is forgotten then (P2).
 */
export class KeyIndex {
  readonly on: readonly FieldPath[];
  readonly lineage: symbol;
  readonly tracked: LiveRows;
  readonly #places: KeyTable;
  readonly #hold: KeyHold;
  /** Whether a commit has been made by them. */
  isUsed = false;
  /** Fragments whose rows nobody has told of yet. */
  #unread: ReadonlySet<number> = new Set();
  /** Places may still be those of before. */
  readonly #moves = new PendingRemaps();
  #isSweeping = false;
  #isReleased = false;

  constructor(
    dataset: Dataset,
    on: readonly FieldPath[],
    tracked: LiveRows,
    { digest, hold }: { digest: KeyDigest; hold: KeyHold },
  ) {
    this.on = on;
    this.lineage = dataset.lineage;
    this.tracked = tracked;
    this.#places = new KeyTable(digest);
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
    await eachPlace(dataset, this.on, from, (key, place) => {
      seen += 1;
      if (key !== undefined) problem = this.#learn(key, place);
      problem ??= seen % rowsPerCheck === 0 ? this.#checkRoom() : undefined;
      return problem === undefined;
    });
    if (problem !== undefined) return problem;
    if (seen !== rows) return 'changed';
    this.#unread = new Set();
    return this.#checkRoom();
  }

  /** Of the keys of a group that have a row, where it is. */
  find({ firstWith }: SharedRows): ReadonlyMap<CanonicalKey, RowAddress> {
    this.#hold.touch();
    const found = new Map<CanonicalKey, RowAddress>();
    for (const key of firstWith.keys()) {
      const place = this.#placeNow(this.#places.find(key));
      if (place !== undefined) found.set(key, place);
    }
    return found;
  }

  /** Where the rows of a group came to be, that were sent in this order. */
  replaced({ fragments }: Replaced, requests: readonly MergeRequest[], { parts }: SharedRows): Unknowable | undefined {
    this.isUsed = true;
    const rest = fragments.values();
    let { value: fragment } = rest.next();
    let offset = 0;
    for (const [index, { keys }] of requests.entries()) {
      const keep = parts[index]?.keep;
      for (let row = 0; row < keys.rows; row++) {
        if (keep !== undefined && keep[row] === 0) continue;
        while (fragment !== undefined && offset >= fragment.rows) {
          fragment = rest.next().value;
          offset = 0;
        }
        if (fragment === undefined) return 'changed';
        const key = keys.canonical(row);
        if (key !== undefined) this.#places.set(key, fragment.id, offset);
        offset += 1;
      }
    }
    return this.#checkRoom();
  }

  release(): void {
    this.#isReleased = true;
    this.#hold.release();
  }

  #learn(key: CanonicalKey, place: RowAddress): Unknowable | undefined {
    const before = this.#placeNow(this.#places.set(key, place.fragment, place.offset));
    return before === undefined || isSame(before, place) ? undefined : 'key twice';
  }

  #addressesIn(ids: readonly number[]) {
    return ids.flatMap((id) => [...this.tracked.rowsOf(id)].map(addressOf));
  }

  /** Where a row is that was heard of; undefined where it is gone. */
  #placeNow(place: RowAddress | undefined): RowAddress | undefined {
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
      this.#moves.forgetOldest(done);
    }
    this.#isSweeping = false;
  }

  #checkRoom(): Unknowable | undefined {
    return this.#hold.resize(this.#places.bytes + this.tracked.bytes + this.#moves.bytes) ? undefined : 'no room';
  }
}

const isSame = (a: RowAddress, b: RowAddress): boolean => a.fragment === b.fragment && a.offset === b.offset;
