import type { RowAddressSql } from '../../engine/port/row-address.ts';
import type { CanonicalKey } from '../../keys/key-columns.ts';

/** What a merge does to a row it finds. */
export type Updates = 'every column' | 'some columns' | 'under a filter' | 'nothing';

type Addresses = ReadonlyMap<CanonicalKey, readonly RowAddressSql[]>;

/** Where the rows of a merge's keys are, in three versions. */
export interface KeyPlaces {
  /** The one the merge made. */
  readonly after: Addresses;
  /** The one before it, which has what others committed meanwhile. */
  readonly beside: Addresses;
  /** The one it was matched against, without. */
  readonly matched: Addresses;
}

export interface Repair {
  /** That get one row. */
  readonly keys: ReadonlySet<CanonicalKey>;
  readonly doomed: readonly RowAddressSql[];
  /** Rows of others that the merge did not find, and would have updated. */
  readonly missed: readonly RowAddressSql[];
  /** Those that the merge took for new and inserted. */
  readonly found: ReadonlySet<CanonicalKey>;
}

/**
 * One row for each key that the merge wrote beside a row it had not seen. Keys that had several rows before either are left
 * alone, as are those that only others wrote.
 */
export function planRepair({ after, beside, matched }: KeyPlaces, updates: Updates): Repair {
  const doomed: RowAddressSql[] = [];
  const missed: RowAddressSql[] = [];
  const keys = new Set<CanonicalKey>();
  const found = new Set<CanonicalKey>();
  for (const [key, rows] of after) {
    const old = matched.get(key) ?? [];
    if (rows.length < 2 || old.length > 1) continue;
    const { theirs, ours, hadMatch } = sidesOf(rows, beside.get(key) ?? [], old);
    // An update of some columns can leave a row where it was.
    const wrote = ours.length > 0 || (hadMatch && (updates === 'every column' || updates === 'some columns'));
    if (theirs.length === 0 || !wrote) continue;
    keys.add(key);
    if (!hadMatch) found.add(key);
    const oursStays = hadMatch || updates === 'every column';
    doomed.push(...(oursStays ? theirs : ours));
    if (!oursStays && updates !== 'nothing') missed.push(...theirs);
  }
  return { keys, doomed, missed, found };
}

function sidesOf(rows: readonly RowAddressSql[], beside: readonly RowAddressSql[], old: readonly RowAddressSql[]) {
  return {
    theirs: rows.filter((row) => beside.includes(row) && !old.includes(row)),
    ours: rows.filter((row) => !beside.includes(row)),
    /** A row that is gone since was found, and updated. */
    hadMatch: old.length > 0 || beside.some((row) => !rows.includes(row)),
  };
}
