/** Which rows of a dataset have which keys. Long work on the keys lets others have the thread in between (P10). */
import { setImmediate } from 'node:timers/promises';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import { chunkOfFile } from '../../arrow/stream/ipc-chunks.ts';
import type { Dataset } from '../../engine/port/engine.ts';
import { addressOf, type RowAddress, type RowAddressSql, rowAddress } from '../../engine/port/row-address.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { readKeys, sqlFieldPath } from '../../keys/key-columns.ts';
import type { KeyDigests, KeyHasher } from '../../keys/key-hasher.ts';
import type { KeySet } from '../../keys/key-table.ts';
import type { Batch } from '../batch.ts';

/** About a millisecond's work. */
const sliceRows = 4_096;
/** Beyond so many literals the whole table is read instead: a filter of a million is parsed for seconds. */
const mostLiterals = 100_000;

/** A dataset, or a shadow of one. */
type Readable = Pick<Dataset, 'select' | 'take'>;

/** The columns of merge keys, and what makes their digests. */
export interface KeyReading {
  readonly on: readonly FieldPath[];
  readonly hasher: KeyHasher;
}

export interface SoughtKeys extends KeyReading {
  readonly keys: KeySet;
  /** True for every row with one of the keys, and for some others; undefined for all rows. */
  readonly where: CheckedSql | undefined;
}

export function soughtKeys({ first: { on }, requests, keys, hasher }: Batch): SoughtKeys {
  const literals = on.map((_, column) => new Set(requests.flatMap((request) => request.keys.sqlLiterals(column))));
  return { on, keys, hasher, where: whereOf(on, literals) };
}

function whereOf(on: readonly FieldPath[], literals: readonly ReadonlySet<string>[]): CheckedSql | undefined {
  if (literals.some(({ size }) => size > mostLiterals)) return undefined;
  const terms = on.map((path, column) => inList(sqlFieldPath(path), [...(literals[column] ?? [])]));
  return ownSql(terms.join(' AND '));
}

const inList = (expression: string, literals: readonly string[]): string =>
  literals.length === 0 ? 'false' : `${expression} IN (${literals.join(', ')})`;

/** How many rows each of the sought keys has, by its number: of all rows, or of those at some addresses. */
export async function countSoughtRows(
  dataset: Readable,
  sought: SoughtKeys,
  at?: readonly RowAddressSql[],
): Promise<Uint32Array> {
  const rows = new Uint32Array(sought.keys.size);
  await eachRow(dataset, sought, at === undefined ? sought : { at }, (digests, row) => {
    const key = row === undefined ? -1 : sought.keys.indexOf(digests, row);
    if (key !== -1) rows[key]! += 1;
    return true;
  });
  return rows;
}

/** Where the rows with the sought keys are. */
export async function addressesByKey(
  dataset: Readable,
  sought: SoughtKeys,
): Promise<ReadonlyMap<number, readonly RowAddressSql[]>> {
  const found = new Map<number, RowAddressSql[]>();
  await eachRow(dataset, sought, sought, (digests, row, address) => {
    const key = row === undefined ? -1 : sought.keys.indexOf(digests, row);
    if (key === -1) return true;
    const known = found.get(key);
    if (known === undefined) found.set(key, [addressOf(address)]);
    else known.push(addressOf(address));
    return true;
  });
  return found;
}

export type RowsFrom = { readonly where: CheckedSql | undefined } | { readonly at: readonly RowAddressSql[] };

/** Answers whether it wants to see more. `row` is that of the digests; undefined where the key is NULL. */
type SeeRow = (digests: KeyDigests, row: number | undefined, address: RowAddress) => boolean;

/** Calls `see` for each row. */
export async function eachRow(
  dataset: Readable,
  { on, hasher }: KeyReading,
  from: RowsFrom,
  see: SeeRow,
): Promise<void> {
  const keyColumns = on.map((path, index) => ({ name: `key_${index}`, expression: sqlFieldPath(path) }));
  const columns = [...keyColumns, { name: addressColumn, expression: rowAddress }];
  const files = 'at' in from ? dataset.take(from.at, columns) : dataset.select(columns, from.where);
  for await (const file of files) {
    const chunk = chunkOfFile(file);
    const keys = readKeys(
      chunk,
      keyColumns.map(({ name }) => ({ segments: [name] })),
    );
    const digests = await hasher.digest(keys);
    const addresses = readAddresses(chunk);
    for (let row = 0; row < keys.rows; row++) {
      if (row % sliceRows === sliceRows - 1) await setImmediate();
      if (!see(digests, keys.isNull(row) ? undefined : row, addresses(row))) return;
    }
  }
}

const addressColumn = 'address';

/** Addresses are unsigned integers of 64 bits: the fragment is the upper half. */
function readAddresses(chunk: Parameters<typeof readKeys>[0]): (row: number) => RowAddress {
  const [column] = readKeys(chunk, [{ segments: [addressColumn] }]).columns;
  const { bytes } = column!.values;
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / Uint32Array.BYTES_PER_ELEMENT);
  return (row) => ({ fragment: words[2 * row + 1]!, offset: words[2 * row]! });
}
