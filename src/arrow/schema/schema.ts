/**
 * An Arrow schema is plain immutable data: what the IPC schema message says, nothing decoded from batches. `read-schema.ts`
 * reads it, `schema-rules.ts` compares it, and `lance-json.ts` shows it to LanceDB clients.
 */
import { invalidInput } from '../../kernel/errors.ts';
import type { Blocks, IpcFile } from '../format/ipc-file.ts';

export type TimeUnit = 's' | 'ms' | 'us' | 'ns';

/** A type says this besides its kind. */
interface TypeDetails {
  readonly null: Plain;
  readonly bool: Plain;
  readonly binary: Plain;
  readonly utf8: Plain;
  readonly large_binary: Plain;
  readonly large_utf8: Plain;
  readonly int: { readonly bitWidth: 8 | 16 | 32 | 64; readonly signed: boolean };
  readonly float: { readonly bitWidth: 16 | 32 | 64 };
  readonly decimal: { readonly bitWidth: 32 | 64 | 128 | 256; readonly precision: number; readonly scale: number };
  readonly date: { readonly unit: 'day' | 'ms' };
  readonly time: { readonly unit: TimeUnit };
  readonly timestamp: { readonly unit: TimeUnit; readonly timezone: string | undefined };
  readonly duration: { readonly unit: TimeUnit };
  readonly interval: { readonly unit: 'year_month' | 'day_time' | 'month_day_nano' };
  readonly fixed_size_binary: { readonly byteWidth: number };
  readonly list: Plain;
  readonly large_list: Plain;
  readonly struct: Plain;
  readonly map: Plain;
  readonly fixed_size_list: { readonly listSize: number };
}

type Plain = Readonly<Record<never, never>>;
type TypeKind = keyof TypeDetails;

export type DataTypeOf<Of extends TypeKind> = { [Each in Of]: { readonly kind: Each } & TypeDetails[Each] }[Of];
export type DataType = DataTypeOf<TypeKind>;

export interface Dictionary {
  readonly id: bigint;
  readonly index: { readonly bitWidth: 8 | 16 | 32 | 64; readonly signed: boolean };
  readonly ordered: boolean;
}

export interface Field {
  readonly name: string;
  readonly nullable: boolean;
  readonly type: DataType;
  /** It is there where the column travels as indices; `type` is then the type of the values. */
  readonly dictionary: Dictionary | undefined;
  readonly children: readonly Field[];
  readonly metadata: ReadonlyMap<string, string>;
}

export interface Schema {
  readonly fields: readonly Field[];
  readonly metadata: ReadonlyMap<string, string>;
}

/** A column has these buffers, in this order: the bitmap of its NULLs, its offsets, its values. Then come its children. */
interface ColumnLayout {
  /** Only a column of type null has none, nor any other buffer. */
  readonly hasBitmap: boolean;
  /** The width of one offset. Values of one width have no offsets: 0. */
  readonly offsetBytes: 0 | 4 | 8;
  /** One value is so wide, or 0 if the offsets say where each ends; undefined if the column has no buffer of values. */
  readonly valueBits: number | undefined;
  /** So many values of each child belong to one value of the column; undefined if the offsets say. */
  readonly childValues: number | undefined;
}

const layout = (offsetBytes: 0 | 4 | 8, valueBits: number | undefined, childValues = 0): ColumnLayout => ({
  hasBitmap: true,
  offsetBytes,
  valueBits,
  childValues,
});
const list = (offsetBytes: 4 | 8): ColumnLayout => ({ ...layout(offsetBytes, undefined), childValues: undefined });

interface KindFacts<Type> {
  readonly layout: (type: Type) => ColumnLayout;
  /** Shows the type in messages. Without it, the kind is shown. */
  readonly name?: (type: Type, children: readonly Field[]) => string;
  /** Spells the type as DataFusion's `arrow_cast` does, for kinds whose literals in SQL are of another type. */
  readonly cast?: (type: Type) => string;
}

const intervalBytes = { year_month: 4, day_time: 8, month_day_nano: 16 } as const;
const timeBits = ({ unit }: { readonly unit: TimeUnit }): 32 | 64 => (unit === 's' || unit === 'ms' ? 32 : 64);
const castUnits = { s: 'Second', ms: 'Millisecond', us: 'Microsecond', ns: 'Nanosecond' } as const;
const intName = ({ bitWidth, signed }: Dictionary['index']): string => `${signed ? 'int' : 'uint'}${bitWidth}`;
const withUnit = ({ kind, unit }: { readonly kind: string; readonly unit: string }): string => `${kind}(${unit})`;
const withElement = ({ kind }: { readonly kind: string }, children: readonly Field[]): string =>
  `${kind}<${children.map(typeName).join()}>`;

const kinds: { readonly [Each in TypeKind]: KindFacts<DataTypeOf<Each>> } = {
  null: { layout: () => ({ ...layout(0, undefined), hasBitmap: false }) },
  bool: { layout: () => layout(0, 1) },
  int: { layout: ({ bitWidth }) => layout(0, bitWidth), name: intName },
  float: {
    layout: ({ bitWidth }) => layout(0, bitWidth),
    name: ({ bitWidth }) => `float${bitWidth}`,
    cast: ({ bitWidth }) => `Float${bitWidth}`,
  },
  decimal: {
    layout: ({ bitWidth }) => layout(0, bitWidth),
    name: ({ bitWidth, precision, scale }) => `decimal${bitWidth}(${precision}, ${scale})`,
    cast: ({ bitWidth, precision, scale }) => `Decimal${bitWidth}(${precision}, ${scale})`,
  },
  date: {
    layout: ({ unit }) => layout(0, unit === 'day' ? 32 : 64),
    name: ({ unit }) => (unit === 'day' ? 'date32' : 'date64'),
    cast: ({ unit }) => (unit === 'day' ? 'Date32' : 'Date64'),
  },
  time: {
    layout: (type) => layout(0, timeBits(type)),
    name: withUnit,
    cast: (type) => `Time${timeBits(type)}(${castUnits[type.unit]})`,
  },
  timestamp: {
    layout: () => layout(0, 64),
    name: ({ unit, timezone }) => `timestamp(${unit}${timezone === undefined ? '' : `, ${timezone}`})`,
    cast: ({ unit, timezone }) => `Timestamp(${castUnits[unit]}, ${zoneName(timezone)})`,
  },
  duration: { layout: () => layout(0, 64), name: withUnit, cast: ({ unit }) => `Duration(${castUnits[unit]})` },
  interval: { layout: ({ unit }) => layout(0, 8 * intervalBytes[unit]), name: withUnit },
  utf8: { layout: () => layout(4, 0) },
  binary: { layout: () => layout(4, 0) },
  large_utf8: { layout: () => layout(8, 0) },
  large_binary: { layout: () => layout(8, 0) },
  fixed_size_binary: {
    layout: ({ byteWidth }) => layout(0, 8 * byteWidth),
    name: ({ byteWidth }) => `fixed_size_binary(${byteWidth})`,
    cast: ({ byteWidth }) => `FixedSizeBinary(${byteWidth})`,
  },
  list: { layout: () => list(4), name: withElement },
  map: { layout: () => list(4), name: withElement },
  large_list: { layout: () => list(8), name: withElement },
  fixed_size_list: {
    layout: ({ listSize }) => layout(0, undefined, listSize),
    name: (type, children) => `${withElement(type, children)}(${type.listSize})`,
  },
  struct: {
    layout: () => layout(0, undefined, 1),
    name: (_, children) => `struct<${children.map((child) => `${child.name}: ${typeName(child)}`).join(', ')}>`,
  },
};

function zoneName(timezone: string | undefined): string {
  if (timezone === undefined) return 'None';
  if (/["'\\]/.test(timezone)) throw invalidInput('a time zone with quotes cannot be compared');
  return `Some("${timezone}")`;
}

const factsOf = <Of extends TypeKind>(type: DataTypeOf<Of>): KindFacts<DataTypeOf<Of>> => kinds[type.kind];

/** Shows a type: `int64`, `timestamp(us, UTC)`, `list<utf8>`, `dictionary<int8, utf8>`. */
export function typeName({ type, children, dictionary }: Field): string {
  const name = factsOf(type).name?.(type, children) ?? type.kind;
  return dictionary === undefined ? name : `dictionary<${intName(dictionary.index)}, ${name}>`;
}

/** Spells a type as `arrow_cast` does; undefined where a literal in SQL is of the type already. */
export const castName = (type: DataType): string | undefined => factsOf(type).cast?.(type);

/** A dictionary-encoded column lies in its batches as its indices. */
export const columnLayout = ({ dictionary, type }: Field): ColumnLayout =>
  dictionary === undefined ? factsOf(type).layout(type) : layout(0, dictionary.index.bitWidth);

/** Takes the element of a list or a vector. */
export const elementOf = <Part>({ children }: { readonly children: readonly Part[] }): Part => children[0]!;

/** The values of a dictionary-encoded column are a column of their own, in which there may be NULL. */
export const valuesField = (field: Field): Field => ({ ...field, dictionary: undefined, nullable: true });

/** The children of a dictionary-encoded column are its dictionary's. */
export const childrenOf = ({ dictionary, children }: Field): readonly Field[] =>
  dictionary === undefined ? children : [];

/** Counts what a row takes at least, by its types; a value without a fixed width counts as a short one. */
export const leastRowBytes = ({ fields }: Pick<Schema, 'fields'>): number =>
  fields.reduce((sum, field) => sum + leastBytes(field), 0);

function leastBytes(field: Field): number {
  const { offsetBytes, valueBits = 0, childValues } = columnLayout(field);
  const own = valueBits / 8 + 4 * offsetBytes;
  return own + (childValues ?? 1) * leastRowBytes({ fields: childrenOf(field) });
}

export const bytesOfBits = (bits: number): number => Math.ceil(bits / 8);

/** It is a part of a source, or all of it: a file the engine takes, and what is known of it without decoding. */
export interface IpcChunk extends Blocks {
  readonly file: IpcFile;
  readonly schema: Schema;
  readonly rows: number;
  /** They are those of all buffers after decompression, and of the NULLs in columns that the source leaves out. */
  readonly decodedBytes: number;
  /** Gives the memory of `file` to the next body. Nothing of the chunk may be used afterwards, nor keys read from it. */
  release(): void;
}
