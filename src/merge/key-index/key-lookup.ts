/** Which rows of a dataset have which keys. Long work on keys lets other requests have the event loop in between (P10). */
import { setImmediate } from 'node:timers/promises';
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { IpcChunk } from '../../arrow/schema/schema.ts';
import { chunkOfFile } from '../../arrow/stream/ipc-chunks.ts';
import type { Snapshot } from '../../engine/port/dataset.ts';
import type { Projection } from '../../engine/port/merge-spec.ts';
import { addressOf, type RowAddressSql, rowAddress } from '../../engine/port/row-address.ts';
import { type CheckedSql, ownSql } from '../../kernel/checked-sql.ts';
import { paired } from '../../kernel/paired.ts';
import type { RowAddress } from '../../keys/address-remap.ts';
import { orderedValues, readKeys, sqlFieldPath, sqlOneOf } from '../../keys/key-columns.ts';
import type { KeyDigests, KeyHasher } from '../../keys/key-hasher.ts';
import type { KeySet } from '../../keys/key-table.ts';
import { type OrderedValue, readKeyColumn } from '../../keys/key-values.ts';
import type { Batch } from '../batch.ts';

/** About a millisecond of work, after which other requests have the event loop (P10). */
export const sliceRows = 4_096;
/** Beyond so many literals the whole table is read instead: a filter of a million is parsed for seconds. */
const mostLiterals = 100_000;

/** A dataset, or a shadow of one. */
type Readable = Pick<Snapshot, 'select' | 'take'>;

/** Key columns, and what makes the digests of their keys. */
interface KeyReading {
  readonly on: readonly FieldPath[];
  readonly hasher: KeyHasher;
}

interface SoughtKeys extends KeyReading {
  readonly keys: KeySet;
  /** True for every row with one of the keys, and for some others; undefined for all rows. */
  readonly where: CheckedSql | undefined;
}

/** A branch has no filter: the engine would answer it through an index of main, and looks for that index in the wrong folder. */
export function soughtKeys(batch: Batch): SoughtKeys {
  const { on, branch } = batch.first;
  const { keys, hasher } = batch;
  return { on, keys, hasher, where: branch === undefined ? shortFilter(on, keyLiterals(batch)) : undefined };
}

/** As `soughtKeys`, in a view: it has no indexes. */
export const soughtInView = (batch: Batch): SoughtKeys => ({
  ...soughtKeys(batch),
  where: shortFilter(batch.first.on, keyLiterals(batch)),
});

const shortFilter = (on: readonly FieldPath[], literals: readonly (readonly string[])[]): CheckedSql | undefined =>
  literals.every(({ length }) => length <= mostLiterals) ? keyFilter(on, literals) : undefined;

/** The values in the batch of each key column, as SQL. */
export const keyLiterals = ({ first, requests }: Batch): readonly (readonly string[])[] =>
  first.on.map((_, column) => [...new Set(requests.flatMap(({ keys }) => keys.sqlLiterals(column)))]);

/** True for every row that can match; with several key columns also for some that do not. */
export function keyFilter(on: readonly FieldPath[], literals: readonly (readonly string[])[]): CheckedSql {
  if (literals.some(({ length }) => length === 0)) return ownSql('false');
  return ownSql(
    paired(on, literals)
      .map((each) => sqlOneOf(...each))
      .join(' AND '),
  );
}

/** How many rows each of the sought keys has, by its number: of all rows, or of those at some addresses. */
export async function countSoughtRows(
  dataset: Readable,
  sought: SoughtKeys,
  at?: readonly RowAddressSql[],
): Promise<Uint32Array> {
  const rows = new Uint32Array(sought.keys.size);
  const read: ReadColumns = (columns) =>
    at === undefined ? dataset.select(columns, sought.where) : dataset.take(at, columns);
  await eachRow(read, sought, (digests, row) => {
    const key = row === undefined ? -1 : sought.keys.indexOf(digests, row);
    if (key !== -1) rows[key]! += 1;
    return true;
  });
  return rows;
}

/** Finds where the rows with the sought keys are. */
export async function addressesByKey(
  dataset: Pick<Readable, 'select'>,
  sought: SoughtKeys,
): Promise<ReadonlyMap<number, readonly RowAddressSql[]>> {
  const found = new Map<number, RowAddressSql[]>();
  await eachRow(
    (columns) => dataset.select(columns, sought.where),
    sought,
    (digests, row, address) => {
      const key = row === undefined ? -1 : sought.keys.indexOf(digests, row);
      if (key === -1) return true;
      const known = found.get(key);
      if (known === undefined) found.set(key, [addressOf(address)]);
      else known.push(addressOf(address));
      return true;
    },
  );
  return found;
}

/** The rows that are wanted, with these columns. */
export type ReadColumns = (columns: readonly Projection[]) => AsyncIterable<IpcFile>;

/** Returns whether it wants to see more. `row` is that of the digests; undefined where the key is NULL. */
type SeeRow = (digests: KeyDigests, row: number | undefined, address: RowAddress, version: OrderedValue) => boolean;

/** Calls `see` for each row. */
export async function eachRow(
  read: ReadColumns,
  { on, hasher, versionColumn }: KeyReading & { readonly versionColumn?: FieldPath | undefined },
  see: SeeRow,
): Promise<void> {
  const keyColumns = on.map((path, index) => ({ name: `key_${index}`, expression: sqlFieldPath(path) }));
  const columns = [...keyColumns, { name: addressColumn, expression: rowAddress }];
  if (versionColumn !== undefined) columns.push({ name: 'version', expression: sqlFieldPath(versionColumn) });
  for await (const file of read(columns)) {
    const chunk = chunkOfFile(file);
    const keys = readKeys(
      chunk,
      keyColumns.map(({ name }) => ({ segments: [name] })),
    );
    const digests = await hasher.digest(keys);
    const addresses = readAddresses(chunk);
    const versionAt = versionColumn && orderedValues(readKeyColumn(chunk, { segments: ['version'] }, 'version'));
    for (let row = 0; row < keys.rows; row++) {
      if (row % sliceRows === sliceRows - 1) await setImmediate();
      if (!see(digests, keys.isNull(row) ? undefined : row, addresses(row), versionAt?.(row))) return;
    }
  }
}

const addressColumn = 'address';

/** Addresses are unsigned integers of 64 bits: the fragment is the upper half. */
function readAddresses(chunk: IpcChunk): (row: number) => RowAddress {
  const { bytes } = readKeyColumn(chunk, { segments: [addressColumn] }).values;
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / Uint32Array.BYTES_PER_ELEMENT);
  return (row) => ({ fragment: words[2 * row + 1]!, offset: words[2 * row]! });
}
