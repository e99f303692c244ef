/**
 * A merge must know the keys of a source before it may queue. Only the key columns are decompressed
 * and decoded. Equality is SQL's: NULL equals nothing, NaN equals NaN whatever its bits, and -0.0 is 0.0.
 */
import { setImmediate } from 'node:timers/promises';
import { decimalText, halfFloat, isText } from '../arrow/column/column-data.ts';
import { keepRows } from '../arrow/column/concat-rows.ts';
import { asBuffer } from '../arrow/format/ipc-file.ts';
import { type FieldPath, formatFieldPath, quoteSegment, shownCharacters } from '../arrow/schema/field-path.ts';
import { castName, type DataType, type IpcChunk } from '../arrow/schema/schema.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { type KeyDigests, type KeyHasher, rowsPerSlice } from './key-hasher.ts';
import { KeySet } from './key-table.ts';
import {
  integerAt,
  type KeyColumn,
  type KeyMeasure,
  measureKeys,
  type OrderedValue,
  readKeyColumn,
  valueAt,
} from './key-values.ts';

export class Keys {
  readonly rows: number;
  readonly columns: readonly KeyColumn[];

  constructor(rows: number, columns: readonly KeyColumn[]) {
    this.rows = rows;
    this.columns = columns;
  }

  /** Says whether any row's key is NULL, in any of its columns. */
  get hasNull(): boolean {
    return this.columns.some(({ nulls }) => nulls?.includes(1) ?? false);
  }

  /** Says whether the engine, which compares bits where it joins, may miss a row of the table with one of the keys. */
  get hasSpellings(): boolean {
    return this.columns.some((column) => column.hasSpellings);
  }

  isNull(row: number): boolean {
    return this.columns.some(({ nulls }) => nulls !== undefined && nulls[row] === 1);
  }

  /** Says whether two rows, whose keys are not NULL, have the same. */
  isEqual(a: number, b: number): boolean {
    return this.columns.every(({ values }) => Buffer.compare(valueAt(values, a), valueAt(values, b)) === 0);
  }

  /** Writes the value of one key column as SQL; undefined for NULL. */
  sqlLiteral(row: number, column: number): string | undefined {
    const of = this.columns[column];
    return of === undefined || of.nulls?.[row] === 1 ? undefined : sqlLiteral(of, row);
  }

  /** Writes all values of one key column that are not NULL, each once, as SQL for `path IN (…)`. */
  sqlLiterals(column: number): string[] {
    const literals = new Set<string>();
    for (let row = 0; row < this.rows; row++) {
      const literal = this.sqlLiteral(row, column);
      if (literal !== undefined) literals.add(literal);
    }
    return [...literals];
  }

  show(row: number): string {
    return this.columns.map((column) => (column.nulls?.[row] === 1 ? 'NULL' : showValue(column, row))).join(', ');
  }
}

/**
 * `paths` name key columns of the chunk. Throws `TableColumnNotFound` for a path that names none, `InvalidInput` naming
 * the path for a type that cannot be a key and for malformed values.
 */
export const readKeys = (chunk: IpcChunk, paths: readonly FieldPath[]): Keys =>
  new Keys(
    chunk.rows,
    paths.map((path) => readKeyColumn(chunk, path)),
  );

/** The source holds no key twice, NULL aside. */
export interface DistinctKeys {
  readonly keys: Keys;
  readonly digests: KeyDigests;
}

/** Keys are hashed and compared on the event loop (P10). */
const mostBytesOfOneKey = 64 * 2 ** 10;
const mostBytesOfAllKeys = 256 * 2 ** 20;

/** Reads as `readKeys` does; throws `InvalidInput` for a key that is too long or there twice, and `BodyTooLarge`. */
export async function readDistinctKeys(
  chunk: IpcChunk,
  on: readonly FieldPath[],
  hasher: KeyHasher,
): Promise<DistinctKeys> {
  const { keys, digests } = await readShortKeys(chunk, on, hasher);
  const duplicate = await findDuplicate(keys, digests);
  if (duplicate === undefined) return { keys, digests };
  const { row, firstRow } = duplicate;
  throw invalidInput(
    `the source holds a key twice: ${columnsOf(on)} = ${keys.show(row)} in rows ${firstRow + 1} and ${row + 1}`,
  );
}

/** Reads as `readDistinctKeys` does, of a source that may hold a key twice. Of its rows one stays. NULL is no key: such rows all stay. */
export async function readKeptKeys(
  chunk: IpcChunk,
  on: readonly FieldPath[],
  hasher: KeyHasher,
  stays: (first: number, last: number) => 'first' | 'last',
): Promise<DistinctKeys & { readonly chunk: IpcChunk }> {
  const { keys, digests } = await readShortKeys(chunk, on, hasher);
  const known = new KeySet(digests.wordsPerKey, keys.rows);
  const rowOf = new Uint32Array(keys.rows);
  const keep = new Uint8Array(keys.rows).fill(1);
  for (let row = 0; row < keys.rows; row++) {
    if (row % rowsPerSlice === rowsPerSlice - 1) await setImmediate();
    if (keys.isNull(row)) continue;
    const newKey = known.size;
    const key = known.add(digests, row);
    const before = rowOf[key]!;
    const isKept = key === newKey || stays(before, row) === 'last';
    if (key !== newKey) keep[isKept ? before : row] = 0;
    if (isKept) rowOf[key] = row;
  }
  if (!keep.includes(0)) return { chunk, keys, digests };
  const thinned = keepRows(chunk, keep);
  return { chunk: thinned, ...(await readShortKeys(thinned, on, hasher)) };
}

async function readShortKeys(chunk: IpcChunk, on: readonly FieldPath[], hasher: KeyHasher): Promise<DistinctKeys> {
  const keys = readKeys(chunk, on);
  const measure = measureKeys(keys.columns, keys.rows);
  requireShort(measure, on);
  return { keys, digests: await hasher.digest(keys, measure.longest.bytes) };
}

const columnsOf = (on: readonly FieldPath[]): string => on.map(formatFieldPath).join(', ');

function requireShort({ allBytes, longest }: KeyMeasure, on: readonly FieldPath[]): void {
  if (longest.bytes > mostBytesOfOneKey) {
    throw invalidInput(
      `the key ${columnsOf(on)} of row ${longest.row + 1} has ${longest.bytes} bytes; a key can have ${mostBytesOfOneKey}`,
    );
  }
  if (allBytes <= mostBytesOfAllKeys) return;
  throw new LancegateError(
    'BodyTooLarge',
    `the keys ${columnsOf(on)} have ${allBytes} bytes, and those of one merge can have ${mostBytesOfAllKeys}: send fewer rows at a time`,
  );
}

/** Finds the first row whose key an earlier row has, too. */
export async function findDuplicate(
  keys: Keys,
  digests: KeyDigests,
): Promise<{ readonly row: number; readonly firstRow: number } | undefined> {
  const known = new KeySet(digests.wordsPerKey, keys.rows);
  const rowOf = new Uint32Array(keys.rows);
  for (let row = 0; row < keys.rows; row++) {
    if (row % rowsPerSlice === rowsPerSlice - 1) await setImmediate();
    if (keys.isNull(row)) continue;
    const newKey = known.size;
    const key = known.add(digests, row);
    const firstRow = key === newKey ? undefined : rowOf[key];
    if (firstRow === undefined) rowOf[key] = row;
    else if (keys.isEqual(firstRow, row)) return { row, firstRow };
  }
  return undefined;
}

/** Writes one spelling of each key, as SQL of the type of the column, for what the engine is to join by. */
export function sqlOfOneSpelling(path: FieldPath, { field: { type } }: KeyColumn): string {
  const sql = sqlFieldPath(path);
  if (type.kind !== 'float') return sql;
  const oneNaN = `nanvl(arrow_cast(${sql}, 'Float64'), arrow_cast('NaN', 'Float64'))`;
  return `arrow_cast(${oneNaN} + arrow_cast('0', 'Float64'), 'Float${type.bitWidth}')`;
}

/** It is true for every row whose value is one of these, given as SQL: `IN` finds both zeros, and of NaNs only those of the same bits. */
export function sqlOneOf(path: FieldPath, literals: readonly string[]): string {
  const sql = sqlFieldPath(path);
  const isOne = `${sql} IN (${literals.join(', ')})`;
  return literals.some((literal) => literal.startsWith("arrow_cast('NaN'")) ? `(${isOne} OR isnan(${sql}))` : isOne;
}

/** Writes a path as the engine's SQL wants it: every segment quoted, so that no name is a keyword or loses its case. */
export const sqlFieldPath = (path: FieldPath): string => path.segments.map(quoteSegment).join('.');

type RawValue = boolean | number | bigint | string | Uint8Array;

const rawValue = (column: KeyColumn, row: number): RawValue => rawValues(column)(row);

function rawValues({ field: { type }, values }: KeyColumn): (row: number) => RawValue {
  if (isText(type)) return (row) => asBuffer(valueAt(values, row)).toString('utf8');
  if (values.form === 'variable' || type.kind === 'fixed_size_binary') return (row) => valueAt(values, row);
  const { bytes, widthBytes } = values;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (type.kind === 'bool') return (row) => view.getUint8(row) === 1;
  if (type.kind === 'float') {
    if (type.bitWidth === 16) return (row) => halfFloat(view.getUint16(row * 2, true));
    return type.bitWidth === 64 ? (row) => view.getFloat64(row * 8, true) : (row) => view.getFloat32(row * 4, true);
  }
  const isSigned = type.kind !== 'int' || type.signed;
  return (row) => integerAt(view, row * widthBytes, widthBytes, isSigned);
}

/** What values are compared by: `<` is the order of their column, and of texts that of their bytes. undefined for NULL and NaN. */
export function orderedValues(column: KeyColumn): (row: number) => OrderedValue {
  const { values, nulls } = column;
  const read = values.form === 'variable' ? (row: number) => valueAt(values, row) : rawValues(column);
  return (row) => {
    if (nulls?.[row] === 1) return undefined;
    const value = read(row);
    if (value instanceof Uint8Array) return asBuffer(value).toString('latin1');
    if (typeof value === 'boolean') return Number(value);
    return Number.isNaN(value) ? undefined : value;
  };
}

const hexLiteral = (bytes: Uint8Array): string => `X'${asBuffer(bytes).toString('hex')}'`;

function floatText(value: number): string {
  if (Number.isFinite(value)) return Object.is(value, -0) ? '-0.0' : String(value);
  return Number.isNaN(value) ? 'NaN' : `${value < 0 ? '-' : ''}inf`;
}

/** The parser takes the smallest int64 for a float, so it is cast from a text. */
const int64Literal = (value: bigint): string =>
  value === -(2n ** 63n) ? `arrow_cast('${value}', 'Int64')` : String(value);

function plainLiteral(type: DataType, value: RawValue): string {
  if (typeof value === 'string') return `'${value.replaceAll("'", "''")}'`;
  if (value instanceof Uint8Array) return hexLiteral(value);
  if (typeof value === 'boolean') return String(value);
  if (type.kind === 'float') return `'${floatText(Number(value))}'`;
  if (type.kind === 'decimal') return `'${decimalText(BigInt(value), type.scale)}'`;
  return int64Literal(BigInt(value));
}

/**
 * Writes one value as SQL, for the engine's filters. Every literal has its column's exact type, because the engine refuses
 * many that it would have to convert. A float zero also finds the zero of the other sign. Not for a NULL.
 */
function sqlLiteral(column: KeyColumn, row: number): string {
  const { type } = column.field;
  const literal = plainLiteral(type, rawValue(column, row));
  const cast = castName(type);
  // A decimal of negative scale cannot be cast from a text, but from another decimal.
  if (type.kind === 'decimal' && type.scale < 0) {
    const whole = `arrow_cast(${literal}, 'Decimal${type.bitWidth}(${type.bitWidth === 128 ? 38 : 76}, 0)')`;
    return `arrow_cast(${whole}, '${cast}')`;
  }
  return cast === undefined ? literal : `arrow_cast(${literal}, '${cast}')`;
}

function showValue(column: KeyColumn, row: number): string {
  const value = rawValue(column, row);
  const { type } = column.field;
  if (typeof value === 'string') return cut(JSON.stringify(value.slice(0, shownCharacters + 1)));
  if (value instanceof Uint8Array) return cut(hexLiteral(value.subarray(0, shownCharacters)));
  if (type.kind === 'decimal') return decimalText(BigInt(value), type.scale);
  return String(value);
}

const cut = (text: string): string => (text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text);
