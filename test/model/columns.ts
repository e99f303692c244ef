/** The columns of the model's tables: their types as Arrow has them, and the few values that each type takes. */
import type { DataType, Dictionary, Field, Schema } from '#src/arrow/schema/schema.ts';
import { type Codec, encodeStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { Random } from './random.ts';
import type { Row, Value } from './values.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

/** Few values for each type, so that keys meet; among them those that are hard on it. */
const scalarTypes = {
  bool: { type: { kind: 'bool' }, pool: [true, false] },
  int32: { type: { kind: 'int', bitWidth: 32, signed: true }, pool: [0n, 1n, 2n, 3n, 4n, -(2n ** 31n)] },
  int64: { type: { kind: 'int', bitWidth: 64, signed: true }, pool: [0n, 1n, 2n, 7n, 2n ** 63n - 1n, -(2n ** 63n)] },
  uint64: { type: { kind: 'int', bitWidth: 64, signed: false }, pool: [0n, 1n, 2n ** 63n, 2n ** 64n - 1n] },
  float32: { type: { kind: 'float', bitWidth: 32 }, pool: [0, -0, 1.5, -2.25, Number.NaN] },
  float64: { type: { kind: 'float', bitWidth: 64 }, pool: [0, -0, 1.5, Number.NaN, Number.POSITIVE_INFINITY] },
  utf8: { type: { kind: 'utf8' }, pool: ['', 'a', 'A', "it's", 'Größe', 'x`y', '0'] },
  large_utf8: { type: { kind: 'large_utf8' }, pool: ['', 'a', 'b', 'c"d'] },
  binary: { type: { kind: 'binary' }, pool: [bytes(''), bytes('a'), bytes('\x00\xff'), bytes("'")] },
  fixed_binary: {
    type: { kind: 'fixed_size_binary', byteWidth: 2 },
    pool: [bytes('aa'), bytes('\x00\xff'), bytes('zz')],
  },
  date: { type: { kind: 'date', unit: 'day' }, pool: [0n, -1n, 20_000n] },
  timestamp: { type: { kind: 'timestamp', unit: 'us', timezone: undefined }, pool: [0n, -1n, 1_700_000_000_123_456n] },
  timestamp_utc: { type: { kind: 'timestamp', unit: 'ms', timezone: 'UTC' }, pool: [0n, -1n, 1_700_000_000_123n] },
  decimal: { type: { kind: 'decimal', bitWidth: 128, precision: 20, scale: 2 }, pool: [0n, -5n, 123n, 10n ** 19n] },
  category: { type: { kind: 'utf8' }, pool: ['red', 'green', ''] },
} as const satisfies Record<string, { type: DataType; pool: readonly Value[] }>;

export type ScalarType = keyof typeof scalarTypes;
export const keyTypes = Object.keys(scalarTypes) as readonly ScalarType[];

/** Plain data, so that steps can be printed and read back. */
export interface Column {
  readonly name: string;
  readonly type: ScalarType | 'list' | 'struct';
  readonly nullable: boolean;
  readonly fields: readonly Column[];
}

const nullPercent = 12;

export function randomValue(random: Random, column: Column): Value {
  if (column.nullable && random.chance(nullPercent)) return null;
  switch (column.type) {
    case 'struct':
      return randomRow(random, column.fields);
    case 'list':
      return Array.from({ length: random.int(3) }, () => BigInt(random.int(4)));
    default:
      return random.pick<Value>(scalarTypes[column.type].pool);
  }
}

export const randomRow = (random: Random, columns: readonly Column[]): Row =>
  Object.fromEntries(columns.map((column) => [column.name, randomValue(random, column)]));

/** The path's own column last, the structs around it before; undefined where the path leads nowhere. */
export function columnAt(columns: readonly Column[], segments: readonly string[]): Column | undefined {
  const [name, ...rest] = segments;
  const column = columns.find((candidate) => candidate.name === name);
  return column === undefined || rest.length === 0 ? column : columnAt(column.fields, rest);
}

/** The paths of all scalars. */
export const scalarPaths = (columns: readonly Column[], parent: readonly string[] = []): (readonly string[])[] =>
  columns.flatMap(({ name, type, fields }) => {
    if (type === 'struct') return scalarPaths(fields, [...parent, name]);
    return type === 'list' ? [] : [[...parent, name]];
  });

/** The table's columns and the source's: same type all the way down. NULLs are judged by value. */
export const sameColumnType = (a: Column, b: Column): boolean =>
  a.type === b.type &&
  a.fields.length === b.fields.length &&
  a.fields.every((inner, i) => inner.name === b.fields[i]?.name && sameColumnType(inner, b.fields[i]));

function arrowField(column: Column, dictionaryIds: Iterator<bigint>): Field {
  const { name, type, nullable, fields } = column;
  switch (type) {
    case 'struct':
      return field(name, { kind: 'struct' }, { nullable, children: fields.map((of) => arrowField(of, dictionaryIds)) });
    case 'list':
      return field(name, { kind: 'list' }, { nullable, children: [field('item', scalarTypes.int32.type)] });
    case 'category': {
      const id = dictionaryIds.next().value as bigint;
      const dictionary: Dictionary = { id, index: { bitWidth: 8, signed: true }, ordered: false };
      return field(name, scalarTypes.category.type, { nullable, dictionary });
    }
    default:
      return field(name, scalarTypes[type].type, { nullable });
  }
}

function* countUp(): Generator<bigint> {
  for (let id = 0n; ; id++) yield id;
}

const arrowSchema = (columns: readonly Column[]): Schema => {
  const dictionaryIds = countUp();
  return schemaOf(columns.map((column) => arrowField(column, dictionaryIds)));
};

/** Rows as a client sends them, in so many record batches. */
export function encodeRows(columns: readonly Column[], rows: readonly Row[], batches: number, codec: Codec): Buffer {
  const perBatch = Math.max(1, Math.ceil(rows.length / batches));
  const starts = Array.from({ length: Math.ceil(rows.length / perBatch) }, (_, i) => i * perBatch);
  const encoded = starts.map((start) => columnwise(columns, rows.slice(start, start + perBatch)));
  return encodeStream(arrowSchema(columns), encoded, codec);
}

const columnwise = (columns: readonly Column[], rows: readonly Row[]): Rows =>
  Object.fromEntries(columns.map(({ name }) => [name, rows.map((row) => row[name] ?? null)]));

/** As answers and requests name the type. */
export function lanceType(type: Column['type']): string {
  const { [type]: name = type } = lanceTypes;
  return name;
}

const lanceTypes: Readonly<Partial<Record<Column['type'], string>>> = {
  float32: 'float',
  float64: 'double',
  utf8: 'string',
  large_utf8: 'large_string',
  date: 'date32:day',
  category: 'dict:string:int8:false',
};
