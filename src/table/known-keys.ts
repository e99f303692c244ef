import type { FieldPath } from '../arrow/field-path.ts';
import type { CanonicalKey } from '../arrow/key-columns.ts';
import type { Dataset } from '../engine/port.ts';
import type { KeyHold } from './key-budget.ts';
import type { KeyHash } from './key-hash.ts';
import { countRowsByKey } from './key-lookup.ts';
import { KeyRows, mostBytesPerKey } from './key-rows.ts';
import type { SharedRows } from './merge-group.ts';
import type { MergeRequest } from './merge-request.ts';

/**
 * The keys of one table branch at one version, held in memory so that a group can tell whose rows were new without asking
 * the engine: 1 ms for 6,400 keys, where reading what the commit took away takes 30. Built from the key columns when first
 * needed (100,000 rows: some 20 ms) and carried from commit to commit: over our own, whose keys are at hand, and over those
 * that change no row, such as tidying. Any other makes it worthless.
 *
 * It may take keys for known that are not, as `KeyRows` says, so what it answers is to be compared with the engine's totals.
 */
export class KnownKeys {
  #version: number;
  readonly #columns: string;
  readonly #rows: KeyRows;
  readonly #hold: KeyHold;

  private constructor(version: number, columns: string, rows: KeyRows, hold: KeyHold) {
    this.#version = version;
    this.#columns = columns;
    this.#rows = rows;
    this.#hold = hold;
  }

  /** undefined where there is no room. The keys are counted on `hold`. */
  static async read(
    dataset: Dataset,
    on: readonly FieldPath[],
    { hold, hash }: { readonly hold: KeyHold; readonly hash: KeyHash },
  ): Promise<KnownKeys | undefined> {
    const keptBytes = (await dataset.countRows()) * mostBytesPerKey;
    if (!hold.resize(keptBytes)) return undefined;
    const rows = new KeyRows(hash);
    const isWhole = await countRowsByKey(dataset, on, rows, () => rows.bytes <= keptBytes || hold.resize(rows.bytes));
    if (!isWhole || !hold.resize(rows.bytes)) return undefined;
    return new KnownKeys(await dataset.version(), columnsOf(on), rows, hold);
  }

  /** To be called when nobody will ask any more. */
  release(): void {
    this.#hold.release();
  }

  get version(): number {
    return this.#version;
  }

  isOf(version: number, on: readonly FieldPath[]): boolean {
    return this.#version === version && this.#columns === columnsOf(on);
  }

  /** Those of the group's keys that are known, with their rows. */
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
    for (const key of firstWith.keys()) this.#rows.addIfNew(key);
    return this.#hold.resize(this.#rows.bytes);
  }
}

const columnsOf = (on: readonly FieldPath[]): string => JSON.stringify(on.map(({ segments }) => segments));
