/** Where rows are stored, and what becomes of places: the words in which `Dataset` is asked to replace and to move rows. */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import type { Branded } from '../../kernel/ids.ts';

/** Where one row is stored, as SQL. No other row ever has the same; a row that moves, as most updates make it, gets another. */
export type RowAddressSql = Branded<string, 'RowAddressSql'>;
/** The expression that selects it. In a filter of `whenMatchedUpdateAll` it is `target._rowaddr`, without the index only. */
export const rowAddress = '_rowaddr';

/** Where a row is stored, in numbers of 32 bits: the same as its `RowAddressSql`. */
export interface RowAddress {
  readonly fragment: number;
  readonly offset: number;
}

/** How rows came to be where they are. */
export interface LiveRowsChange {
  /** False: nothing that was known of any place holds any more, and all fragments count as added. */
  readonly isKnown: boolean;
  /** Fragments whose rows are neither those of before nor moved. */
  readonly added: readonly number[];
  /** Without it every row is where it was, or is gone. */
  readonly moved: AddressRemap | undefined;
}

/** Rows that were put elsewhere by one commit, or by some that have nothing to do with each other. */
export interface AddressRemap {
  /** How many were, those not counted that were deleted by then. */
  readonly rows: number;
  /** The memory that it takes to know. */
  readonly bytes: number;
  /** Where they were. */
  fragments(): Iterable<number>;
  /** Whether rows of this fragment were. */
  hasMoved(fragment: number): boolean;
  /** The fragments that its rows were put in, with those of others. */
  fragmentsOf(fragment: number): readonly number[];
  /**
   * Where the row at a place was put; undefined for one that was deleted by then. What has become of it since is for `has`, and
   * for those who moved it again. The same place for rows that have not moved.
   */
  placeOf(place: RowAddress): RowAddress | undefined;
}

/** Which places have rows, at one version of a branch after the other. In memory: a bit for each row at the most. */
export interface LiveRows {
  /** 0 to begin with: no rows at all. */
  readonly version: number;
  readonly bytes: number;
  has(place: RowAddress): boolean;
  hasFragment(id: number): boolean;
  /** Those that are not deleted; 0 of a fragment that is not there. */
  countRows(fragment: number): number;
  rowsOf(fragment: number): Iterable<RowAddress>;
  /** Moves to a newer version. Throws where its files do not tell; it stands where it stood then. */
  advance(version: number): LiveRowsChange;
}

/** A complete IPC file of so many rows. */
export interface NewRows {
  readonly file: IpcFile;
  readonly rows: number;
}

/** Rows that the engine has begun to write, for as many attempts of `replaceRows` as it takes. */
export interface PreparedRows extends NewRows {
  /** To be called when no attempt follows; after a commit it removes nothing that the table needs. */
  discard(): void;
}

export interface Replaced {
  readonly version: number;
  /** Where the new rows are, in their order. */
  readonly fragments: readonly { readonly id: number; readonly rows: number }[];
}

/**
 * Two ways of having written nothing. `refused`: the table, or a source like this one, is for `merge` alone; what is tracked
 * is as it was, as it is after an error. `overtaken`: somebody else has changed rows; nothing is to be made of what is tracked any more.
 */
export type Replacing = Replaced | 'refused' | 'overtaken';

/**
 * A filter for the rows of some fragments, at least one: the upper half of an address is the fragment. Neighbours share a
 * range, for there can be hundreds.
 */
export function addressesIn(ids: readonly number[]): CheckedSql {
  const ranges: { readonly from: number; end: number }[] = [];
  for (const id of ids.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last?.end === id) last.end += 1;
    else ranges.push({ from: id, end: id + 1 });
  }
  const terms = ranges.map(({ from, end }) => `(${rowAddress} >= ${start(from)} AND ${rowAddress} < ${start(end)})`);
  return ownSql(terms.join(' OR '));
}

export const addressOf = ({ fragment, offset }: RowAddress): RowAddressSql =>
  String(start(fragment) | BigInt(offset)) as RowAddressSql;

const start = (fragment: number): bigint => BigInt(fragment) << 32n;
