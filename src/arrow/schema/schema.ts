import type { Blocks, IpcFile } from '../format/ipc-file.ts';

/**
 * An Arrow schema as plain immutable data: what the IPC schema message says, nothing decoded from batches.
 * Read by `read-schema.ts`; compared here; shown to LanceDB clients by `http/routes/describe-table.ts`.
 */
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

const timestampName = (unit: string, timezone: string | undefined): string =>
  timezone === undefined ? `timestamp(${unit})` : `timestamp(${unit}, ${timezone})`;

const childNames = (children: readonly Field[]): string =>
  children.map((child) => `${child.name}: ${typeName(child)}`).join(', ');

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
      return timestampName(type.unit, type.timezone);
    case 'fixed_size_binary':
      return `fixed_size_binary(${type.byteWidth})`;
    case 'fixed_size_list':
      return `fixed_size_list<${children.map(typeName).join()}>(${type.listSize})`;
    case 'list':
    case 'large_list':
    case 'map':
      return `${type.kind}<${children.map(typeName).join()}>`;
    case 'struct':
      return `struct<${childNames(children)}>`;
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
