/** Columns of plain values to Arrow record batches. */
import {
  Bool,
  type DataType,
  Field,
  FixedSizeList,
  Float32,
  Float64,
  Int32,
  Int64,
  List,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { CliError } from '../command.ts';
import { at, type Cell, type ColumnType } from './column-type.ts';

interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** One for each row. */
  readonly values: readonly unknown[];
}

export interface EncodedRows {
  readonly schema: Schema;
  readonly batches: Iterable<RecordBatch>;
}

export function encodeColumns(columns: readonly Column[]): EncodedRows {
  const schema = new Schema(columns.map(({ name, type }) => nullableField(name, type)));
  return { schema, batches: encodeBatches(schema, columns) };
}

function* encodeBatches(schema: Schema, columns: readonly Column[]): Iterable<RecordBatch> {
  const rows = columns[0]?.values.length ?? 0;
  // Small enough for any limit of the service with ordinary rows, large enough that headers do not count.
  const rowsPerBatch = 16_384;
  for (let start = 0; start < rows; start += rowsPerBatch) {
    const length = Math.min(rowsPerBatch, rows - start);
    const children = columns.map((column, index) => {
      const values = column.values
        .slice(start, start + length)
        .map((value, offset) => encodeValue(column.type, value, { row: start + offset + 1, column: column.name }));
      return vectorFromArray(values, schema.fields[index]!.type).data[0]!;
    });
    yield new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length, nullCount: 0, children }));
  }
}

const nullableField = (name: string, type: ColumnType): Field => new Field(name, arrowType(type, name), true);

function arrowType(type: ColumnType, name: string): DataType {
  switch (type.kind) {
    case 'bool':
      return new Bool();
    case 'int32':
      return new Int32();
    case 'int64':
      return new Int64();
    case 'float32':
      return new Float32();
    case 'float64':
      return new Float64();
    case 'utf8':
      return new Utf8();
    case 'list':
      return new List(nullableField('item', type.item));
    case 'vector':
      return new FixedSizeList(type.length, new Field('item', new Float32(), true));
    case 'struct':
      if (type.fields.size === 0) throw new CliError(`column ${JSON.stringify(name)}: its objects have no fields`);
      return new Struct([...type.fields].map(([field, fieldType]) => nullableField(field, fieldType)));
  }
}

/** The value in the form that the column's builder takes. Throws `CliError` for one that the type cannot hold. */
function encodeValue(type: ColumnType, value: unknown, cell: Cell): unknown {
  if (value === null || value === undefined) return null;
  const encoded = encodePresent(type, value, cell);
  if (encoded !== undefined) return encoded;
  throw new CliError(`${at(cell)}: ${JSON.stringify(value, showBigInt)} is not ${showType(type)}`);
}

function encodePresent(type: ColumnType, value: unknown, cell: Cell): unknown {
  switch (type.kind) {
    case 'bool':
      return typeof value === 'boolean' ? value : undefined;
    case 'int32':
      return typeof value === 'number' && (value | 0) === value ? value : undefined;
    case 'int64':
      return toInt64(value);
    case 'float32':
    case 'float64':
      return toFloat(type.kind, value);
    case 'utf8':
      return typeof value === 'string' ? value : JSON.stringify(value, showBigInt);
    case 'list':
      return encodeList(value, type.item, cell);
    case 'vector':
      return isVector(value, type.length) ? value : undefined;
    case 'struct':
      return encodeStruct(value, type.fields, cell);
  }
}

function toInt64(value: unknown): bigint | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  return typeof value === 'bigint' && BigInt.asIntN(64, value) === value ? value : undefined;
}

/** JSON has no infinity: one is a number that the type cannot hold. */
function toFloat(kind: 'float32' | 'float64', value: unknown): number | undefined {
  if (typeof value !== 'number' && typeof value !== 'bigint') return undefined;
  const number = Number(value);
  return Number.isFinite(kind === 'float32' ? Math.fround(number) : number) ? number : undefined;
}

const encodeList = (value: unknown, item: ColumnType, cell: Cell): readonly unknown[] | undefined =>
  Array.isArray(value)
    ? value.map((element) => encodeValue(item, element, { ...cell, column: `${cell.column}[]` }))
    : undefined;

function encodeStruct(value: unknown, fields: ReadonlyMap<string, ColumnType>, cell: Cell): object | undefined {
  if (typeof value !== 'object' || Array.isArray(value)) return undefined;
  const given = value as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    [...fields].map(([name, type]) => [
      name,
      encodeValue(type, given[name], { ...cell, column: `${cell.column}.${name}` }),
    ]),
  );
}

const isVector = (value: unknown, length: number): boolean =>
  Array.isArray(value) &&
  value.length === length &&
  value.every((element) => typeof element === 'number' && toFloat('float32', element) !== undefined);

const showType = (type: ColumnType): string => (type.kind === 'vector' ? `float32[${type.length}]` : type.kind);

const showBigInt = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? value.toString() : value);
