import type { FieldPath } from '../arrow/field-path.ts';
import type { Dataset } from '../engine/port.ts';
import type { KeyHold } from './key-budget.ts';
import { countRowsByKey } from './key-lookup.ts';
import type { KeyRows } from './key-rows.ts';
import type { RowsBefore, SharedRows } from './merge-group.ts';
import type { MergeRequest } from './merge-request.ts';

/** A larger table is asked about the keys at hand instead: reading them all would keep its writers for a second. */
const maxReadKeys = 1_000_000;
/** What a table may grow to while its keys are known. */
const maxKnownKeys = 4_000_000;

/**
 * The keys of one table branch at one version, held in memory so that a group can tell whose rows were new without asking
 * the engine: 1 ms for 6,400 keys, where a lookup takes 33 ms with an index. Built from the key columns when first needed
 * (100,000 rows: some 20 ms) and carried from commit to commit: over our own, whose keys are at hand, and over those that
 * change no row, such as tidying. Any other makes it worthless.
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

  /** undefined for a table with too many keys. The keys are counted on `hold`. */
  static async read(dataset: Dataset, on: readonly FieldPath[], hold: KeyHold): Promise<KnownKeys | undefined> {
    if ((await dataset.countRows()) > maxReadKeys) return undefined;
    const rows = await countRowsByKey(dataset, on, { mayHold: (key) => hold.take(key) });
    return rows && new KnownKeys(await dataset.version(), columnsOf(on), rows, hold);
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

  rowsBefore(): RowsBefore {
    return (key) => this.#rows.get(key);
  }

  /** To be called where no commit after its version up to `version` changed a row. */
  carryTo(version: number): void {
    this.#hold.touch();
    this.#version = version;
  }

  /** Takes in what a group inserted. False where the keys would become too many: forget them then. */
  advance(version: number, { spec }: MergeRequest, { firstWith }: SharedRows): boolean {
    this.#version = version;
    if (!spec.whenNotMatchedInsertAll) return true;
    for (const key of firstWith.keys()) {
      if (this.#rows.get(key) > 0) continue;
      if (!this.#hold.take(key)) return false;
      this.#rows.add(key);
    }
    return this.#rows.size <= maxKnownKeys;
  }
}

const columnsOf = (on: readonly FieldPath[]): string => JSON.stringify(on.map(({ segments }) => segments));
