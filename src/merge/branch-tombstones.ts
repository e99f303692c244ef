import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { orderedValues } from '../keys/key-columns.ts';
import { readKeyColumn } from '../keys/key-values.ts';
import type { Head } from '../write/write.ts';
import type { MergeOfRows } from './batch.ts';
import { Tombstones, tombstoneNames } from './tombstones.ts';

interface KnownTombstones {
  readonly lineage: string;
  readonly version: number;
  readonly tombstones: Tombstones;
}

/** The tombstones of a branch at its head. They are read where another program, or another kind of write, made the head. */
export class BranchTombstones {
  readonly #clock: Clock;
  #known: KnownTombstones | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** undefined for merges that compare no versions. */
  async at({ dataset, version }: Head, { versionColumn }: MergeOfRows): Promise<Tombstones | undefined> {
    if (versionColumn === undefined) return undefined;
    const { lineage } = dataset;
    const known = this.#known;
    if (known?.lineage === lineage && known.version === version) return known.tombstones;
    const settings = await dataset.settingsOf(version);
    if (settings === undefined)
      throw new LancegateError(
        'Internal',
        'the newest version of the table cannot be read, so its tombstones are not known',
      );
    const isSame = known?.tombstones.text === Tombstones.textIn(settings);
    const tombstones = known !== undefined && isSame ? known.tombstones : Tombstones.of(settings);
    this.#known = { lineage, version, tombstones };
    return tombstones;
  }

  /** With those that these marked rows leave. */
  with(tombstones: Tombstones, merge: MergeOfRows): Tombstones {
    const { chunk, keys, versionColumn } = merge;
    if (versionColumn === undefined) return tombstones;
    const versionAt = orderedValues(readKeyColumn(chunk, versionColumn, 'version'));
    const nameOf = tombstoneNames(merge, versionColumn);
    const rows = Array.from({ length: keys.rows }, (_, row) => row).filter((row) => !keys.isNull(row));
    return tombstones.with(
      rows.map((row) => [nameOf(row), versionAt(row)]),
      this.#clock.nowMs(),
    );
  }

  /** A merge to this head made the version directly after it, with these in place of those of the head, or none. */
  made({ version: head }: Head, version: number, tombstones: Tombstones | undefined): void {
    const known = this.#known;
    if (known?.version !== head || version > head + 1) this.#known = undefined;
    else if (version > head) this.#known = { ...known, version, tombstones: tombstones ?? known.tombstones };
  }
}
