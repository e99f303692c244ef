import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { Dataset } from '../../engine/port/engine.ts';
import type { CanonicalKey } from '../../keys/key-columns.ts';
import type { KeyHold } from '../../memory/key-quota.ts';
import { countRowsByKey } from '../key-index/key-lookup.ts';
import type { MergeRequest } from '../merge-request.ts';
import type { SharedRows } from '../queue/batch.ts';
import type { KeyHash } from './fingerprint.ts';
import { KeyRows, mostBytesPerKey } from './key-rows.ts';

/** The keys are counted on `hold`. */
export interface KeyRoom {
  readonly hold: KeyHold;
  readonly hash: KeyHash;
}

/**
 * The keys of one table branch at one version, held in memory so that a group can tell whose rows were new without asking
 * the engine: 1 ms for 6,400 keys, where reading what the commit took away takes 30. Built from the key columns when first
 * needed (100,000 rows: some 20 ms) and carried from commit to commit: over our own, whose keys are at hand, and over those
 * that change no row, such as tidying. Any other makes it worthless.
 *
 * Reading may go on beside commits: it reads the version it began with, and what they insert is kept aside until it is done.
 *
 * It may take keys for known that are not, as `KeyRows` says, so what it answers is to be compared with the engine's totals.
 */
export class KnownKeys {
  #version: number;
  readonly #on: readonly FieldPath[];
  readonly #rows: KeyRows;
  readonly #hold: KeyHold;
  /** What was inserted while the others are being read; undefined when they have been. */
  #meanwhile: KeyRows | undefined;
  #heldBytes: number;
  #isReleased = false;

  private constructor(version: number, on: readonly FieldPath[], { hold, hash }: KeyRoom, heldBytes: number) {
    this.#version = version;
    this.#on = on;
    this.#rows = new KeyRows(hash);
    this.#meanwhile = new KeyRows(hash);
    this.#hold = hold;
    this.#heldBytes = heldBytes;
  }

  /** None are known before `readAll` is done. undefined where there is no room for as many as the dataset has rows. */
  static async open(dataset: Dataset, on: readonly FieldPath[], room: KeyRoom): Promise<KnownKeys | undefined> {
    const bytes = (await dataset.countRows()) * mostBytesPerKey;
    return room.hold.resize(bytes) ? new KnownKeys(await dataset.version(), on, room, bytes) : undefined;
  }

  /** Of the dataset at the version it was opened for. False where the room is not enough, or nobody wants them any more. */
  async readAll(dataset: Dataset): Promise<boolean> {
    const mayGoOn = (): boolean => !this.#isReleased && this.#fits();
    if (!(await countRowsByKey(dataset, this.#on, this.#rows, mayGoOn)) || !mayGoOn()) return false;
    if (this.#meanwhile !== undefined) this.#rows.addAllNew(this.#meanwhile);
    this.#meanwhile = undefined;
    return this.#resize();
  }

  get isWhole(): boolean {
    return this.#meanwhile === undefined;
  }

  /** To be called when nobody will ask any more. */
  release(): void {
    this.#isReleased = true;
    this.#hold.release();
  }

  get version(): number {
    return this.#version;
  }

  isOf(version: number, on: readonly FieldPath[]): boolean {
    return this.#version === version && columnsOf(this.#on) === columnsOf(on);
  }

  /** Those of the group's keys that are known, with their rows. To be asked when it is whole. */
  find({ firstWith }: SharedRows): ReadonlyMap<CanonicalKey, number> {
    const found = new Map<CanonicalKey, number>();
    for (const key of firstWith.keys()) {
      const rows = this.#rows.get(key);
      if (rows > 0) found.set(key, rows);
    }
    return found;
  }

  /** To be called where no commit after its version up to `version` changed a row. */
  carryTo(version: number): void {
    this.#hold.touch();
    this.#version = version;
  }

  /** Takes in what a group inserted. False where there is no room for it: forget them then. */
  advance(version: number, { spec }: MergeRequest, { firstWith }: SharedRows): boolean {
    this.#version = version;
    if (!spec.whenNotMatchedInsertAll) return true;
    const rows = this.#meanwhile ?? this.#rows;
    for (const key of firstWith.keys()) rows.addIfNew(key);
    return this.isWhole ? this.#resize() : this.#fits();
  }

  get #bytes(): number {
    return this.#rows.bytes + (this.#meanwhile?.bytes ?? 0);
  }

  /** What is held is for all that will be read. */
  #fits(): boolean {
    return this.#bytes <= this.#heldBytes || this.#resize();
  }

  #resize(): boolean {
    this.#heldBytes = this.#bytes;
    return this.#hold.resize(this.#heldBytes);
  }
}

const columnsOf = (on: readonly FieldPath[]): string => JSON.stringify(on.map(({ segments }) => segments));
