/** Addresses say where rows are stored, and changes where they are after a commit. */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import type { Branded, Properties } from '../../kernel/ids.ts';
import type { AddressRemap, RowAddress } from '../../keys/address-remap.ts';
import type { ChangeLimits } from './change-limits.ts';
import type { Projection } from './merge-spec.ts';
import type { CommitOutcome } from './refusal.ts';

/** Where one row is stored, as SQL. No other row ever has the same; a row that moves, as most updates make it, gets another. */
export type RowAddressSql = Branded<string, 'RowAddressSql'>;
/** The expression that selects it. In a filter of `whenMatchedUpdateAll` it is `target._rowaddr`, without the index only. */
export const rowAddress = '_rowaddr';

/** What became of row addresses between two versions. */
export interface LiveRowsChange {
  /** False: no known address holds any more, and all fragments count as added. */
  readonly isKnown: boolean;
  /** Fragments of new rows. */
  readonly added: readonly number[];
  /** undefined: every row is where it was, or is deleted. */
  readonly moved: AddressRemap | undefined;
}

/** The live-row map of a branch, which follows it from version to version. In memory: a bit for each row at the most. */
export interface LiveRows {
  /** 0 to begin with: no rows at all. */
  readonly version: number;
  readonly bytes: number;
  has(address: RowAddress): boolean;
  hasFragment(id: number): boolean;
  /** Rows that are not deleted; 0 for a fragment that is not there. */
  countRows(fragment: number): number;
  rowsOf(fragment: number): Iterable<RowAddress>;
  /** Moves to a newer version. If its files cannot be read this throws, and stays at the version where it was. */
  advance(version: number): LiveRowsChange;
}

/** A complete IPC file of so many rows. */
export interface NewRows {
  readonly file: IpcFile;
  readonly rows: number;
}

/** Rows that the engine has begun to write, for as many attempts of `replaceRows` as it takes. */
export interface PreparedRows extends NewRows {
  /** The caller calls this when no attempt follows; after a commit it removes no file of the table. */
  discard(): void;
}

/** The rows of a source of any size. They are written part by part, before any lock, and one commit takes all of them. */
export interface StagedSource {
  /** Without given columns the first part decides them, also without rows. */
  append(file: IpcFile): Promise<void>;
  countRows(): Promise<number>;
  /** All of them, as `Dataset.select`. */
  select(columns: readonly Projection[], limits: ChangeLimits): AsyncIterable<IpcFile>;
  /** The caller calls this when no commit follows; after a commit it removes no file of the table. */
  discard(): void;
}

export interface Replaced {
  readonly version: number;
  /** The new rows are in these, in their order. */
  readonly fragments: readonly { readonly id: number; readonly rows: number }[];
}

/**
 * How a commit takes its turn among others of its branch. On an object store the next one is prepared as soon as it is planned what
 * this one makes, and it is made after this one.
 */
export interface CommitTurn {
  /** The planned version that this commit follows; undefined where it follows the head. */
  readonly follows: number | undefined;
  /** All files of the version are there, and it is yet to be made. Not called where that takes no time. */
  planned(replaced: Replaced): void;
  /** Awaited directly before the version is made. False where the one before it was not: the commit is `overtaken` then. */
  isNext(): Promise<boolean>;
}

export interface ReplaceOptions {
  /**
   * Where the rows were that the new ones update, in the order of these; undefined for one that is new. It is asked of tables whose
   * rows have ids, which an update leaves as they are.
   */
  readonly updated?: () => Iterable<RowAddress | undefined>;
  /** What its transaction says besides, for `transactionOf`. */
  readonly properties?: Properties | undefined;
  /** The table configuration of the version has them beside the others that it has. */
  readonly settings?: Properties | undefined;
  /** As of `Shadow.commit`. */
  readonly takesAway?: boolean | undefined;
  readonly turn?: CommitTurn | undefined;
}

/** Where it is refused the live-row map is as it was, as after an error; where it is `overtaken` the map is of no use any more. */
export type Replacing = CommitOutcome<Replaced>;

/**
 * A filter for the rows of some fragments, at least one: the upper half of an address is the fragment. Consecutive fragments share
 * a range, for there can be hundreds.
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

/** A filter for the rows at these addresses. Consecutive ones share a range, which is parsed sooner than each. */
export function addressesAmong(addresses: readonly RowAddressSql[]): CheckedSql {
  const sorted = BigUint64Array.from(addresses, BigInt).sort();
  const single: bigint[] = [];
  const terms: string[] = [];
  for (let from = 0, end = 1; from < sorted.length; from = end, end += 1) {
    while (end < sorted.length && sorted[end] === sorted[end - 1]! + 1n) end += 1;
    if (end - from < 4) single.push(...sorted.subarray(from, end));
    else terms.push(`(${rowAddress} >= ${sorted[from]} AND ${rowAddress} <= ${sorted[end - 1]})`);
  }
  if (single.length > 0) terms.push(`${rowAddress} IN (${single.join(', ')})`);
  return ownSql(terms.join(' OR ') || 'false');
}

/** A filter for the rows of a fragment and of all that came after it. */
export const addressesFrom = (id: number): CheckedSql => ownSql(`${rowAddress} >= ${start(id)}`);

export const addressOf = ({ fragment, offset }: RowAddress): RowAddressSql =>
  String(start(fragment) | BigInt(offset)) as RowAddressSql;

export const placeOf = (address: RowAddressSql | bigint): RowAddress => ({
  fragment: Number(BigInt(address) >> 32n),
  offset: Number(BigInt.asUintN(32, BigInt(address))),
});

const start = (fragment: number): bigint => BigInt(fragment) << 32n;
