import { setImmediate } from 'node:timers/promises';
import type { RowsOf } from '../../arrow/column/concat-rows.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Snapshot } from '../../engine/port/dataset.ts';
import { addressesIn, addressOf, type LiveRows, type Replaced } from '../../engine/port/row-address.ts';
import type { RowAddress } from '../../keys/address-remap.ts';
import { orderedValues } from '../../keys/key-columns.ts';
import { type KeyDigests, type KeyHasher, textOfDigest } from '../../keys/key-hasher.ts';
import { type KeySet, KeyTable } from '../../keys/key-table.ts';
import { type OrderedValue, readKeyColumn } from '../../keys/key-values.ts';
import type { KeyHold } from '../../memory/key-quota.ts';
import type { MergeOfRows } from '../batch.ts';
import { eachRow, type ReadColumns } from './key-lookup.ts';
import { PendingRemaps } from './pending-remaps.ts';

/**
 * The index reads at most so many rows by their addresses, which takes 20 ms of the branch's lock; for more it reads whole
 * fragments.
 */
const mostRowsTaken = 20_000;
const rowsPerCheck = 65_536;
/** Reading for all clients of a table is a principal of its own, and takes as long as the table is large. */
const readingLimits = { timeoutMs: undefined, principal: 'key index' };
/** Applying remaps looks at every key. So it waits until they concern this part of the rows, or are many. */
const mostRemappedPart = 1 / 2;
const mostRemaps = 16;

/** The index is given up beyond so many surplus rows: more would take memory that other keys need (P7). */
const mostSurplusRows = 50_000;
/** What a surplus row takes with its key and its list. Measured. */
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
  /** Those that are known of the versions of keys with one row, of the column that was asked for. */
  readonly versions = new Map<number, OrderedValue>();
  readonly #index: KeyIndex;
  readonly #keys: KeySet;

  constructor(index: KeyIndex, keys: KeySet) {
    this.#index = index;
    this.#keys = keys;
  }

  setVersion(key: number, version: OrderedValue): void {
    if (version !== undefined) this.versions.set(key, version);
  }

  /** Whether the index would find the same rows, while it stays at its version and no commit is under way. */
  areOf(index: KeyIndex, keys: KeySet): boolean {
    return this.#index === index && this.#keys === keys;
  }

  numRows(key: number): number {
    return this.rows.has(key) ? 1 + (this.surplus.get(key)?.length ?? 0) : 0;
  }
}

/** It knows where the rows of a batch will be that is not committed yet. */
export class PlannedRows {
  readonly #keys: KeySet;
  readonly #fragments: Int32Array;
  readonly #offsets: Uint32Array;

  /** The engine writes the `parts` in their order. `keyOf` is the number in `keys` of each row of a request; -1 for NULL. */
  constructor({ fragments }: Replaced, keys: KeySet, parts: readonly RowsOf[], keyOf: (request: number) => Int32Array) {
    this.#keys = keys;
    this.#fragments = new Int32Array(keys.size).fill(-1);
    this.#offsets = new Uint32Array(keys.size);
    const nextAddress = addressesOf(fragments);
    for (const [request, { keep }] of parts.entries()) {
      for (const [row, key] of keyOf(request).entries()) {
        const address = keep?.[row] === 0 ? undefined : nextAddress();
        if (address === undefined || key === -1) continue;
        this.#fragments[key] = address.fragment;
        this.#offsets[key] = address.offset;
      }
    }
  }

  /** undefined for a key of which the batch writes no row. Of one that it writes there is no other row. */
  find(digests: KeyDigests, index: number): RowAddress | undefined {
    const key = this.#keys.indexOf(digests, index);
    const fragment = key === -1 ? -1 : this.#fragments[key]!;
    return fragment === -1 ? undefined : { fragment, offset: this.#offsets[key]! };
  }
}

/**
 * Where the rows with each key of one table branch are. A look-up has two steps: the address at which the key was last seen, and
 * whether a row is still there (`LiveRows`). So a deletion changes nothing here, and only fragments that other programs brought
 * are read.
 *
 * It is exact, or it is nothing: a step that cannot be sure says so, and the index is given up (P2). A key has one row, or
 * several where another program has doubled it.
 */
export class KeyIndex {
  readonly on: readonly FieldPath[];
  readonly lineage: string;
  readonly tracked: LiveRows;
  readonly #hasher: KeyHasher;
  readonly #hold: KeyHold;
  readonly #addresses = new KeyTable();
  /** The other rows that were seen with a key, by the key's digest. */
  readonly #surplus = new Map<string, readonly RowAddress[]>();
  #surplusRows = 0;
  /** Addresses in the table may still be those from before. */
  readonly #remaps = new PendingRemaps();
  /** Fragments whose keys are yet to be read. */
  #unread: ReadonlySet<number> = new Set();
  /** `#addresses` has versions of this column. */
  #versionColumn: FieldPath | undefined;
  #hasRoomForVersions = true;
  /** Whether a commit has been made by it. */
  isUsed = false;
  #isApplying = false;
  #isReleased = false;
  /** Commits under way have planned these; the newest is first. */
  #planned: readonly PlannedRows[] = [];

  constructor(
    dataset: Snapshot,
    { on, versionColumn }: Pick<MergeOfRows, 'on' | 'versionColumn'>,
    tracked: LiveRows,
    { hasher, hold }: { hasher: KeyHasher; hold: KeyHold },
  ) {
    this.on = on;
    this.#versionColumn = versionColumn;
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
    if (moved !== undefined) this.#remaps.add(moved);
    const targets = [...this.#unread].flatMap((id) => moved?.fragmentsOf(id) ?? []);
    this.#unread = new Set([...this.#unread, ...targets, ...added].filter((id) => this.tracked.hasFragment(id)));
    void this.#applyRemaps();
    return undefined;
  }

  /** `dataset` is at the version of `tracked`. It has to read as many rows as there are. */
  async readRest(dataset: Snapshot): Promise<Unknowable | undefined> {
    const ids = [...this.#unread];
    if (ids.length === 0) return undefined;
    const rows = this.unreadRows;
    const addresses =
      rows <= mostRowsTaken ? ids.flatMap((id) => [...this.tracked.rowsOf(id)].map(addressOf)) : undefined;
    const read: ReadColumns = (columns) =>
      addresses === undefined
        ? dataset.select(columns, addressesIn(ids), readingLimits)
        : dataset.take(addresses, columns);
    let problem: Unknowable | undefined;
    let seen = 0;
    const reading = { on: this.on, hasher: this.#hasher, versionColumn: this.#versionColumn };
    await eachRow(read, reading, (digests, row, address, version) => {
      seen += 1;
      if (row !== undefined) problem = this.#learn(digests, row, address, version);
      problem ??= seen % rowsPerCheck === 0 ? this.#checkRoom() : undefined;
      return problem === undefined;
    });
    if (problem !== undefined) return problem;
    if (seen !== rows) return 'changed';
    this.#unread = new Set();
    return this.#checkRoom();
  }

  /**
   * Finds the rows of the keys at the version of `tracked`, and the versions that they have in a column, as far as they are known: one
   * column has room, and another one begins anew.
   */
  find(keys: KeySet, versionColumn?: FieldPath): FoundRows {
    this.#hold.touch();
    const found = new FoundRows(this, keys);
    const { digests, size } = keys;
    if (versionColumn !== undefined) this.#keepVersionsOf(versionColumn);
    for (let key = 0; key < size; key++) {
      const planned = this.#plannedRow(digests, key);
      if (planned !== undefined) {
        found.rows.set(key, planned);
        continue;
      }
      const row = this.#rowNow(this.#addresses.find(digests, key));
      const others = this.#surplus.size > 0 ? this.#surplusNow(textOfDigest(digests, key), row) : [];
      const first = row ?? others.shift();
      if (first !== undefined) found.rows.set(key, first);
      if (others.length > 0) found.surplus.set(key, others);
      else if (row !== undefined) found.setVersion(key, versionColumn && this.#addresses.versionOf(digests, key));
    }
    return found;
  }

  /** Notes the versions of rows that were read where they had been found. */
  learnVersions({ digests }: KeySet, found: FoundRows, versions: ReadonlyMap<number, OrderedValue>): void {
    if (this.#versionColumn === undefined) return;
    for (const [key, version] of versions) {
      const row = found.rows.get(key);
      if (row === undefined || found.surplus.has(key)) continue;
      const now = this.#rowNow(this.#addresses.find(digests, key));
      if (now !== undefined && isSame(now, row)) this.#addresses.set(digests, key, row, version);
    }
    this.#checkRoom();
  }

  /** The next batch finds the rows of this one where they will be, until `forgetPlanned`. */
  plan(rows: PlannedRows): void {
    this.#planned = [rows, ...this.#planned];
  }

  forgetPlanned(rows: PlannedRows): void {
    this.#planned = this.#planned.filter((each) => each !== rows);
  }

  #plannedRow(digests: KeyDigests, key: number): RowAddress | undefined {
    for (const rows of this.#planned) {
      const address = rows.find(digests, key);
      if (address !== undefined) return address;
    }
    return undefined;
  }

  /** Notes where the rows of a batch are now, which the engine wrote in this order. Of each key they are the only rows. */
  replaced(
    { fragments }: Replaced,
    requests: readonly MergeOfRows[],
    parts: readonly RowsOf[],
  ): Unknowable | undefined {
    this.isUsed = true;
    const nextAddress = addressesOf(fragments);
    for (const [index, merge] of requests.entries()) {
      const { keys, digests } = merge;
      const keep = parts[index]?.keep;
      const versionAt = this.#versionsIn(merge);
      for (let row = 0; row < keys.rows; row++) {
        if (keep !== undefined && keep[row] === 0) continue;
        const address = nextAddress();
        if (address === undefined) return 'changed';
        if (!keys.isNull(row)) this.#setOnly(digests, row, address, versionAt?.(row));
      }
    }
    return this.#checkRoom();
  }

  #versionsIn({ chunk, versionColumn }: MergeOfRows): ((row: number) => OrderedValue) | undefined {
    if (versionColumn === undefined || !isSamePath(versionColumn, this.#versionColumn)) return undefined;
    return orderedValues(readKeyColumn(chunk, versionColumn, 'version'));
  }

  release(): void {
    this.#isReleased = true;
    this.#hold.release();
  }

  #setOnly(digests: KeyDigests, key: number, row: RowAddress, version: OrderedValue): void {
    this.#addresses.set(digests, key, row, version);
    if (this.#surplus.size > 0) this.#setSurplus(textOfDigest(digests, key), []);
  }

  #learn(digests: KeyDigests, key: number, row: RowAddress, version: OrderedValue): Unknowable | undefined {
    const before = this.#rowNow(this.#addresses.set(digests, key, row, version));
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

  /** Finds where a row is now that was seen at `address`; undefined where it is gone. */
  #rowNow(address: RowAddress | undefined): RowAddress | undefined {
    const now = address && this.#remaps.newAddressOf(address);
    return now !== undefined && this.tracked.has(now) ? now : undefined;
  }

  get #areRemapsDue(): boolean {
    return this.#remaps.count >= mostRemaps || this.#remaps.rows > this.#addresses.size * mostRemappedPart;
  }

  /**
   * Applies remaps to the addresses in the table, so that they can be forgotten: a part of the keys at a time, while other work
   * goes on. Until then each look-up follows them, which is as right before as after.
   */
  async #applyRemaps(): Promise<void> {
    if (this.#isApplying) return;
    this.#isApplying = true;
    while (this.#areRemapsDue && !this.#isReleased) {
      const done = this.#remaps.count;
      for (const _ of this.#addresses.moveAll(this.#remaps)) {
        if (this.#isReleased) return;
        await setImmediate();
      }
      for (const key of [...this.#surplus.keys()]) this.#setSurplus(key, this.#surplusNow(key, undefined));
      this.#remaps.forgetOldest(done);
    }
    this.#isApplying = false;
  }

  #keepVersionsOf(column: FieldPath): void {
    if (!this.#hasRoomForVersions || isSamePath(column, this.#versionColumn)) return;
    this.#versionColumn = column;
    this.#addresses.forgetVersions();
  }

  #checkRoom(): Unknowable | undefined {
    if (this.#hasRoom()) return undefined;
    this.#hasRoomForVersions = false;
    this.#versionColumn = undefined;
    this.#addresses.forgetVersions();
    return this.#hasRoom() ? undefined : 'no room';
  }

  #hasRoom(): boolean {
    const bytes = this.#addresses.bytes + this.#surplusRows * bytesPerSurplusRow;
    return this.#hold.resize(bytes + this.tracked.bytes + this.#remaps.bytes);
  }
}

const isSamePath = ({ segments }: FieldPath, other: FieldPath | undefined): boolean =>
  JSON.stringify(segments) === JSON.stringify(other?.segments);

const isSame = (a: RowAddress, b: RowAddress): boolean => a.fragment === b.fragment && a.offset === b.offset;

/** Each call returns the address of the next row of these fragments; undefined after the last. */
function addressesOf(fragments: Replaced['fragments']): () => RowAddress | undefined {
  const rest = fragments.values();
  let fragment = rest.next().value;
  let offset = 0;
  return () => {
    while (fragment !== undefined && offset >= fragment.rows) {
      fragment = rest.next().value;
      offset = 0;
    }
    return fragment && { fragment: fragment.id, offset: offset++ };
  };
}
