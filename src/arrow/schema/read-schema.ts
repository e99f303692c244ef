/**
 * Reads Arrow schemas from their flatbuffers. It knows every type that `schema.ts` can say; the others (unions, views,
 * run-end encoding) are refused by name. Whether the engine can *store* a type is asked in `schema-rules.ts`.
 * Throws `InvalidInput` on malformed bytes and `TableSchemaValidationError` on what no schema should hold.
 */
import { hash } from 'node:crypto';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { type IpcFile, readFooter } from '../format/ipc-file.ts';
import { continuation, type FlatTable, magic, prefixBytes } from '../format/message.ts';
import { formatFieldPath } from './field-path.ts';
import type { DataType, Dictionary, Field, IpcChunk, Schema, TimeUnit } from './schema.ts';

/**
 * Many fields of a flatbuffer may point at one table, so a few kilobytes can describe a schema without end: what is
 * built here is counted, not what was sent. The engine's own verifier allows a depth of 64 tables.
 */
const maxDepth = 32;
/** A table may have so many, those in others included. */
export const mostFields = 10_000;
const maxTextBytes = 16 << 20;
/** The memory of one metadata entry, about, in addition to its texts. */
const entryOverheadBytes = 64;
const maxFixedWidthBytes = 1 << 24;
const maxListSize = 1 << 20;

interface SchemaSize {
  fields: number;
  textBytes: number;
}

const refuse = (path: readonly string[], why: string) =>
  new LancegateError('TableSchemaValidationError', `column ${formatFieldPath({ segments: path })}: ${why}`);

const timeUnits = ['s', 'ms', 'us', 'ns'] as const;
const dateUnits = ['day', 'ms'] as const;
const intervalUnits = ['year_month', 'day_time', 'month_day_nano'] as const;
const floatWidths = [16, 32, 64] as const;
const intWidths = [8, 16, 32, 64] as const;
const decimalDigits = new Map([
  [32, 9],
  [64, 18],
  [128, 38],
  [256, 76],
] as const);

function choose<Choice>(choices: readonly Choice[], index: number, what: string): Choice {
  const choice = choices[index];
  if (choice === undefined) throw invalidInput(`malformed metadata: ${what} ${index} is unknown`);
  return choice;
}

function intType(table: FlatTable): Dictionary['index'] {
  const bits = table.int32(0);
  const bitWidth = intWidths.find((width) => width === bits);
  if (bitWidth === undefined) throw invalidInput(`malformed metadata: an integer of ${bits} bits`);
  return { bitWidth, signed: table.uint8(1) !== 0 };
}

const timeUnit = (table: FlatTable, absent = 0): TimeUnit => choose(timeUnits, table.int16(0, absent), 'time unit');

function decimalType(table: FlatTable, path: readonly string[]): DataType {
  const bits = table.int32(2, 128);
  const precision = table.int32(0);
  const scale = table.int32(1);
  for (const [bitWidth, digits] of decimalDigits) {
    if (bitWidth !== bits) continue;
    if (precision < 1 || precision > digits || scale > precision || scale < -precision) break;
    return { kind: 'decimal', bitWidth, precision, scale };
  }
  throw refuse(path, `a decimal of ${bits} bits cannot have precision ${precision} and scale ${scale}`);
}

function timeType(table: FlatTable, path: readonly string[]): DataType {
  const unit = timeUnit(table, 1);
  const bits = table.int32(1, 32);
  if (bits !== (unit === 's' || unit === 'ms' ? 32 : 64)) throw refuse(path, `a time in ${unit} of ${bits} bits`);
  return { kind: 'time', unit };
}

function sized(table: FlatTable, path: readonly string[], limit: number): number {
  const size = table.int32(0);
  if (size < 1 || size > limit) throw refuse(path, `a fixed size of ${size} is not between 1 and ${limit}`);
  return size;
}

type ReadType = (table: FlatTable, path: readonly string[]) => DataType;

const unsupported =
  (name: string): ReadType =>
  (_table, path) => {
    throw refuse(path, `the Arrow type ${name} is not supported`);
  };

/** Each stands at its number in the `Type` union of Schema.fbs. */
const typeReaders: Readonly<Record<number, ReadType>> = {
  1: () => ({ kind: 'null' }),
  2: (table) => ({ kind: 'int', ...intType(table) }),
  3: (table) => ({ kind: 'float', bitWidth: choose(floatWidths, table.int16(0), 'float precision') }),
  4: () => ({ kind: 'binary' }),
  5: () => ({ kind: 'utf8' }),
  6: () => ({ kind: 'bool' }),
  7: decimalType,
  8: (table) => ({ kind: 'date', unit: choose(dateUnits, table.int16(0, 1), 'date unit') }),
  9: timeType,
  10: (table) => ({ kind: 'timestamp', unit: timeUnit(table), timezone: table.text(1) }),
  11: (table) => ({ kind: 'interval', unit: choose(intervalUnits, table.int16(0), 'interval unit') }),
  12: () => ({ kind: 'list' }),
  13: () => ({ kind: 'struct' }),
  14: unsupported('union'),
  15: (table, path) => ({ kind: 'fixed_size_binary', byteWidth: sized(table, path, maxFixedWidthBytes) }),
  16: (table, path) => ({ kind: 'fixed_size_list', listSize: sized(table, path, maxListSize) }),
  17: () => ({ kind: 'map' }),
  18: (table) => ({ kind: 'duration', unit: timeUnit(table, 1) }),
  19: () => ({ kind: 'large_binary' }),
  20: () => ({ kind: 'large_utf8' }),
  21: () => ({ kind: 'large_list' }),
  22: unsupported('run_end_encoded'),
  23: unsupported('binary_view'),
  24: unsupported('utf8_view'),
  25: unsupported('list_view'),
  26: unsupported('large_list_view'),
};

function readMetadata(table: FlatTable, field: number, size: SchemaSize): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  for (const entry of table.tables(field)) {
    const key = entry.text(0) ?? '';
    const value = entry.text(1) ?? '';
    count(size, 0, key.length + value.length + entryOverheadBytes);
    metadata.set(key, value);
  }
  return metadata;
}

function count(size: SchemaSize, fields: number, textBytes: number): void {
  size.fields += fields;
  size.textBytes += textBytes;
  if (size.fields > mostFields) throw tooLarge(`the schema has more than ${mostFields} fields`);
  if (size.textBytes > maxTextBytes) throw tooLarge(`the schema's names and metadata exceed ${maxTextBytes} bytes`);
}

const tooLarge = (why: string) => new LancegateError('TableSchemaValidationError', why);

function readDictionary(table: FlatTable | undefined): Dictionary | undefined {
  if (table === undefined) return undefined;
  if (table.int16(3) !== 0) throw invalidInput('malformed metadata: the dictionary kind is unknown');
  const indexType = table.table(1);
  // The format lets it be absent for int32; the engine panics on that, and no known writer leaves it out.
  if (indexType === undefined) throw invalidInput('malformed metadata: a dictionary without the type of its indices');
  return { id: table.int64(0), index: intType(indexType), ordered: table.uint8(2) !== 0 };
}

const withOneChild: ReadonlySet<string> = new Set(['list', 'large_list', 'fixed_size_list', 'map']);

function requireChildren(type: DataType, children: readonly Field[], path: readonly string[]): void {
  const wanted = withOneChild.has(type.kind) ? 1 : 0;
  if (type.kind !== 'struct' && children.length !== wanted) {
    throw refuse(path, `a ${type.kind} with ${children.length} children`);
  }
  if (type.kind !== 'map') return;
  const entries = children[0];
  if (entries?.type.kind !== 'struct' || entries.children.length !== 2) throw refuse(path, 'a map without entries');
}

function readField(table: FlatTable, parent: readonly string[], size: SchemaSize): Field {
  const name = table.text(0) ?? '';
  const path = [...parent, name];
  count(size, 1, name.length);
  if (path.length > maxDepth) throw refuse(path, `nested more than ${maxDepth} deep`);
  const typeTable = table.table(3);
  if (typeTable === undefined) throw invalidInput('malformed metadata: a field without a type');
  const number = table.uint8(2);
  const type = (typeReaders[number] ?? unsupported(`number ${number}`))(typeTable, path);
  const children = [...table.tables(5)].map((child) => readField(child, path, size));
  requireChildren(type, children, path);
  const nullable = table.uint8(1) !== 0;
  const dictionary = readDictionary(table.table(4));
  return { name, nullable, type, dictionary, children, metadata: readMetadata(table, 6, size) };
}

/** Reads the `Schema` table of a message or of a file's footer. */
export function readSchemaTable(table: FlatTable): Schema {
  if (table.int16(0) !== 0) throw invalidInput('the data is big-endian; little-endian is wanted');
  const size: SchemaSize = { fields: 0, textBytes: 0 };
  const fields = [...table.tables(1)].map((field) => readField(field, [], size));
  return { fields, metadata: readMetadata(table, 2, size) };
}

/**
 * Reads the schema of an IPC file, such as the empty one in which the engine hands out a table's schema. No rule about names
 * is applied: the table exists.
 */
export const readSchemaOfIpcFile = (file: Uint8Array): Schema => readSchemaTable(readFooter(file).schema);

/** Gives the whole schema message of a file with its prefix, as a view. */
export function schemaMessage(file: IpcFile): Buffer {
  let start = magic.length;
  // The engine pads the magic to 64 bytes.
  while (file.readInt32LE(start) !== continuation) start += 8;
  return file.subarray(start, start + prefixBytes + file.readInt32LE(start + 4));
}

/**
 * Equal for two chunks only where their schemas are, metadata included; to be part of a key. Writers that say the same
 * schema in other bytes get another fingerprint. A digest, because metadata may take megabytes and queues hold many.
 */
export const schemaFingerprint = ({ file }: IpcChunk): string => hash('sha256', schemaMessage(file), 'base64');
