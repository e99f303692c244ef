/** Which rows of a dataset have which keys. Long work on the keys lets others have the thread in between (P10). */
import { setImmediate } from 'node:timers/promises';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import { chunkOfFile } from '../../arrow/stream/chunk-of-file.ts';
import type { Dataset } from '../../engine/port/engine.ts';
import type { Projection } from '../../engine/port/merge-spec.ts';
import { type RowAddress, type RowAddressSql, rowAddress } from '../../engine/port/row-address.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { type CanonicalKey, type Keys, readKeys, sqlFieldPath } from '../../keys/key-columns.ts';
import type { MergeRequests } from '../merge-request.ts';

/** About a millisecond's work. */
const sliceRows = 4_096;
/** Beyond so many literals the whole table is read instead: a filter of a million is parsed for seconds. */
const mostLiterals = 100_000;

/** A dataset, or a shadow of one. */
type Readable = Pick<Dataset, 'select' | 'take'>;

export interface SoughtKeys {
  readonly on: readonly FieldPath[];
  readonly keys: ReadonlySet<CanonicalKey>;
  /** True for every row with one of the keys, and for some others; undefined for all rows. */
  readonly where: CheckedSql | undefined;
}

/** The keys of requests that merge on the same columns. */
export function soughtKeys(requests: MergeRequests): SoughtKeys {
  const { on } = requests[0];
  const literals = on.map(() => new Set<string>());
  const keys = new Set<CanonicalKey>();
  for (const request of requests) {
    for (let row = 0; row < request.keys.rows; row++) {
      const key = request.keys.canonical(row);
      if (key === undefined) continue;
      keys.add(key);
      for (const [column, values] of literals.entries()) values.add(request.keys.sqlLiteral(row, column) ?? 'NULL');
    }
  }
  return { on, keys, where: whereOf(on, literals) };
}

function whereOf(on: readonly FieldPath[], literals: readonly ReadonlySet<string>[]): CheckedSql | undefined {
  if (literals.some(({ size }) => size > mostLiterals)) return undefined;
  const terms = on.map((path, column) => inList(sqlFieldPath(path), [...(literals[column] ?? [])]));
  return ownSql(terms.join(' AND '));
}

const inList = (expression: string, literals: readonly string[]): string =>
  literals.length === 0 ? 'false' : `${expression} IN (${literals.join(', ')})`;

/** How many rows have each of the sought keys. */
export async function countSoughtRows(
  dataset: Readable,
  { on, keys, where }: SoughtKeys,
): Promise<ReadonlyMap<CanonicalKey, number>> {
  const rows = new Map<CanonicalKey, number>();
  await eachRow(dataset, { on, from: { where }, others: [] }, (key) => {
    if (keys.has(key)) rows.set(key, (rows.get(key) ?? 0) + 1);
    return true;
  });
  return rows;
}

/** How many of the rows at these addresses have each key. */
export async function countRowsAt(
  dataset: Readable,
  at: readonly RowAddressSql[],
  on: readonly FieldPath[],
): Promise<ReadonlyMap<CanonicalKey, number>> {
  const rows = new Map<CanonicalKey, number>();
  await eachRow(dataset, { on, from: { at }, others: [] }, (key) => {
    rows.set(key, (rows.get(key) ?? 0) + 1);
    return true;
  });
  return rows;
}

/** Where the rows with the sought keys are. */
export async function addressesByKey(
  dataset: Readable,
  { on, keys, where }: SoughtKeys,
): Promise<ReadonlyMap<CanonicalKey, readonly RowAddressSql[]>> {
  const found = new Map<CanonicalKey, RowAddressSql[]>();
  await eachRow(dataset, { on, from: { where }, others: [rowAddress] }, (key, row, others) => {
    if (!keys.has(key)) return true;
    const address = others?.sqlLiteral(row, 0) as RowAddressSql;
    const known = found.get(key);
    if (known === undefined) found.set(key, [address]);
    else known.push(address);
    return true;
  });
  return found;
}

export type RowsFrom = { readonly where: CheckedSql | undefined } | { readonly at: readonly RowAddressSql[] };

/** Tells `see` of each row where it is, and its key unless that is NULL, until that answers false. */
export async function eachPlace(
  dataset: Readable,
  on: readonly FieldPath[],
  from: RowsFrom,
  see: (key: CanonicalKey | undefined, place: RowAddress) => boolean,
): Promise<void> {
  const reading = { on, from, others: [rowAddress] };
  const seeRow = (key: CanonicalKey | undefined, row: number, others: Keys | undefined): boolean =>
    see(key, placeOf(others?.canonical(row) ?? 0));
  await everyRow(dataset, reading, seeRow);
}

/** Addresses are 64 bits: the fragment is the upper half. */
function placeOf(address: CanonicalKey): RowAddress {
  if (typeof address === 'number') return { fragment: Math.floor(address / 2 ** 32), offset: address % 2 ** 32 };
  const wide = BigInt(address);
  return { fragment: Number(wide >> 32n), offset: Number(wide & 0xffff_ffffn) };
}

interface Reading {
  readonly on: readonly FieldPath[];
  readonly from: RowsFrom;
  /** Expressions whose values are wanted as well. */
  readonly others: readonly string[];
}

/** Those that have a key, until `see` says that it has seen enough. */
const eachRow = (
  dataset: Readable,
  reading: Reading,
  see: (key: CanonicalKey, row: number, others: Keys | undefined) => boolean,
): Promise<void> => everyRow(dataset, reading, (key, row, others) => key === undefined || see(key, row, others));

/** Also those whose key is NULL. */
async function everyRow(
  dataset: Readable,
  { on, from, others }: Reading,
  see: (key: CanonicalKey | undefined, row: number, others: Keys | undefined) => boolean,
): Promise<void> {
  const keyColumns = on.map((path, index) => ({ name: `key_${index}`, expression: sqlFieldPath(path) }));
  const otherColumns = others.map((expression, index) => ({ name: `other_${index}`, expression }));
  const pathsOf = (columns: readonly Projection[]) => columns.map(({ name }) => ({ segments: [name] }));
  const columns = [...keyColumns, ...otherColumns];
  const files = 'at' in from ? dataset.take(from.at, columns) : dataset.select(columns, from.where);
  for await (const file of files) {
    const chunk = chunkOfFile(file);
    const keys = readKeys(chunk, pathsOf(keyColumns));
    const values = others.length === 0 ? undefined : readKeys(chunk, pathsOf(otherColumns));
    for (let row = 0; row < keys.rows; row++) {
      if (row % sliceRows === sliceRows - 1) await setImmediate();
      if (!see(keys.canonical(row), row, values)) return;
    }
  }
}
