/**
 * An Arrow schema as plain immutable data: what the IPC schema message says, nothing decoded from batches. `read-schema.ts`
 * reads it, `schema-rules.ts` compares it, and `operations/tables/lance-schema-json.ts` shows it to LanceDB clients.
 */
import type { Blocks, IpcFile } from '../format/ipc-file.ts';

export type TimeUnit = 's' | 'ms' | 'us' | 'ns';

export type DataType =
  | { readonly kind: 'null' | 'bool' | 'binary' | 'utf8' | 'large_binary' | 'large_utf8' }
  | { readonly kind: 'int'; readonly bitWidth: 8 | 16 | 32 | 64; readonly signed: boolean }
  | { readonly kind: 'float'; readonly bitWidth: 16 | 32 | 64 }
  | {
      readonly kind: 'decimal';
      readonly bitWidth: 32 | 64 | 128 | 256;
      readonly precision: number;
      readonly scale: number;
    }
  | { readonly kind: 'date'; readonly unit: 'day' | 'ms' }
  | { readonly kind: 'time'; readonly unit: TimeUnit }
  | { readonly kind: 'timestamp'; readonly unit: TimeUnit; readonly timezone: string | undefined }
  | { readonly kind: 'duration'; readonly unit: TimeUnit }
  | { readonly kind: 'interval'; readonly unit: 'year_month' | 'day_time' | 'month_day_nano' }
  | { readonly kind: 'fixed_size_binary'; readonly byteWidth: number }
  | { readonly kind: 'list' | 'large_list' | 'struct' | 'map' }
  | { readonly kind: 'fixed_size_list'; readonly listSize: number };

export interface Dictionary {
  readonly id: bigint;
  readonly index: { readonly bitWidth: 8 | 16 | 32 | 64; readonly signed: boolean };
  readonly ordered: boolean;
}

export interface Field {
  readonly name: string;
  readonly nullable: boolean;
  readonly type: DataType;
  /** Present where the column travels as indices; `type` is then the type of the values. */
  readonly dictionary: Dictionary | undefined;
  readonly children: readonly Field[];
  readonly metadata: ReadonlyMap<string, string>;
}

export interface Schema {
  readonly fields: readonly Field[];
  readonly metadata: ReadonlyMap<string, string>;
}

function valueTypeName(type: DataType, children: readonly Field[]): string {
  switch (type.kind) {
    case 'int':
      return `${type.signed ? 'int' : 'uint'}${type.bitWidth}`;
    case 'float':
      return `float${type.bitWidth}`;
    case 'decimal':
      return `decimal${type.bitWidth}(${type.precision}, ${type.scale})`;
    case 'date':
      return type.unit === 'day' ? 'date32' : 'date64';
    case 'time':
    case 'duration':
    case 'interval':
      return `${type.kind}(${type.unit})`;
    case 'timestamp':
      return type.timezone === undefined ? `timestamp(${type.unit})` : `timestamp(${type.unit}, ${type.timezone})`;
    case 'fixed_size_binary':
      return `fixed_size_binary(${type.byteWidth})`;
    case 'fixed_size_list':
      return `fixed_size_list<${children.map(typeName).join()}>(${type.listSize})`;
    case 'list':
    case 'large_list':
    case 'map':
      return `${type.kind}<${children.map(typeName).join()}>`;
    case 'struct':
      return `struct<${children.map((child) => `${child.name}: ${typeName(child)}`).join(', ')}>`;
    case 'null':
    case 'bool':
    case 'binary':
    case 'utf8':
    case 'large_binary':
    case 'large_utf8':
      return type.kind;
  }
}

/** Such as `int64`, `timestamp(us, UTC)`, `list<utf8>`, `dictionary<int8, utf8>`. */
export function typeName(field: Field): string {
  const name = valueTypeName(field.type, field.children);
  if (field.dictionary === undefined) return name;
  const { signed, bitWidth } = field.dictionary.index;
  return `dictionary<${signed ? 'int' : 'uint'}${bitWidth}, ${name}>`;
}

/** Which buffers a column has, in their order: the bitmap of its NULLs, its offsets, its values. Then come its children. */
interface ColumnLayout {
  /** Only a column of type null has none, nor any other buffer. */
  readonly hasBitmap: boolean;
  /** The width of one offset. Values of one width have no offsets: 0. */
  readonly offsetBytes: 0 | 4 | 8;
  /** The width of one value, or 0 if the offsets say where each ends; undefined if the column has no buffer of values. */
  readonly valueBits: number | undefined;
  /** How many values of each child belong to one value of the column; undefined if the offsets say. */
  readonly childValues: number | undefined;
}

const layout = (offsetBytes: 0 | 4 | 8, valueBits: number | undefined, childValues = 0): ColumnLayout => ({
  hasBitmap: true,
  offsetBytes,
  valueBits,
  childValues,
});
const fixed = (widthBytes: number): ColumnLayout => layout(0, 8 * widthBytes);
const list = (offsetBytes: 4 | 8): ColumnLayout => ({ ...layout(offsetBytes, undefined), childValues: undefined });

const intervalBytes = { year_month: 4, day_time: 8, month_day_nano: 16 } as const;

function valueLayout(type: DataType): ColumnLayout {
  switch (type.kind) {
    case 'null':
      return { ...layout(0, undefined), hasBitmap: false };
    case 'bool':
      return layout(0, 1);
    case 'int':
    case 'float':
    case 'decimal':
      return fixed(type.bitWidth / 8);
    case 'date':
      return fixed(type.unit === 'day' ? 4 : 8);
    case 'time':
      return fixed(type.unit === 's' || type.unit === 'ms' ? 4 : 8);
    case 'timestamp':
    case 'duration':
      return fixed(8);
    case 'interval':
      return fixed(intervalBytes[type.unit]);
    case 'fixed_size_binary':
      return fixed(type.byteWidth);
    case 'utf8':
    case 'binary':
      return layout(4, 0);
    case 'large_utf8':
    case 'large_binary':
      return layout(8, 0);
    case 'list':
    case 'map':
      return list(4);
    case 'large_list':
      return list(8);
    case 'fixed_size_list':
      return layout(0, undefined, type.listSize);
    case 'struct':
      return layout(0, undefined, 1);
  }
}

/** A dictionary-encoded column lies in its batches as its indices. */
export const columnLayout = ({ dictionary, type }: Field): ColumnLayout =>
  dictionary === undefined ? valueLayout(type) : fixed(dictionary.index.bitWidth / 8);

/** The fields of a column's children. Those of a dictionary-encoded column are its dictionary's. */
/** The element of a list or a vector. */
export const elementOf = <Part>({ children }: { readonly children: readonly Part[] }): Part => children[0]!;

export const childrenOf = ({ dictionary, children }: Field): readonly Field[] =>
  dictionary === undefined ? children : [];

/** What a row takes at least, by its types; a value without a fixed width counts as a short one. */
export const leastRowBytes = ({ fields }: Pick<Schema, 'fields'>): number =>
  fields.reduce((sum, field) => sum + leastBytes(field), 0);

function leastBytes(field: Field): number {
  const { offsetBytes, valueBits = 0, childValues } = columnLayout(field);
  const own = valueBits / 8 + 4 * offsetBytes;
  return own + (childValues ?? 1) * leastRowBytes({ fields: childrenOf(field) });
}

/** The bytes of so many bits. */
export const bytesOfBits = (bits: number): number => Math.ceil(bits / 8);

/** A part of a source, or all of it: a file the engine takes, and what is known of it without decoding. */
export interface IpcChunk extends Blocks {
  readonly file: IpcFile;
  readonly schema: Schema;
  readonly rows: number;
  /** Bytes of all buffers after decompression, and of the NULLs in columns that the source leaves out. */
  readonly decodedBytes: number;
  /** Gives the memory of `file` to the next body. Nothing of the chunk may be used afterwards, nor keys read from it. */
  release(): void;
}
