/**
 * Arrow schemas from their flatbuffers. It knows every type that `schema.ts` can say; the others (unions, views,
 * run-end encoding) are refused by name. Whether the engine can *store* a type is asked in `schema-rules.ts`.
 * Fails with `InvalidInput` on malformed bytes and with `TableSchemaValidationError` on a schema nobody should have.
 */

import { hash } from 'node:crypto';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { type IpcFile, readFooter } from '../format/ipc-file.ts';
import { continuation, type FlatTable, magic, prefixBytes } from '../format/message.ts';
import { formatFieldPath } from './field-path.ts';
import type { DataType, Dictionary, Field, IpcChunk, Schema, TimeUnit } from './schema.ts';

/**
 * Flatbuffers may point at one table from many places, so a few kilobytes can describe a schema without end: what is
 * built here is counted, not what was sent. The engine's own verifier allows a depth of 64 tables.
 */
const maxDepth = 32;
const maxFields = 10_000;
const maxTextBytes = 16 << 20;
/** A guess at what one metadata entry costs beside its texts. */
const entryOverheadBytes = 64;
const maxFixedWidthBytes = 1 << 24;
const maxListSize = 1 << 20;

interface Reading {
  fields: number;
  textBytes: number;
}

const refuse = (path: readonly string[], why: string) =>
  new LancegateError('TableSchemaValidationError', `column ${formatFieldPath({ segments: path })}: ${why}`);

const timeUnits = ['s', 'ms', 'us', 'ns'] as const satisfies readonly TimeUnit[];
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

function intWidth(table: FlatTable): 8 | 16 | 32 | 64 {
  const bits = table.int32(0, 0);
  const width = intWidths.find((candidate) => candidate === bits);
  if (width === undefined) throw invalidInput(`malformed metadata: an integer of ${bits} bits`);
  return width;
}

const timeUnit = (table: FlatTable, absent: number): TimeUnit => choose(timeUnits, table.int16(0, absent), 'time unit');

function decimalType(table: FlatTable, path: readonly string[]): DataType {
  const bits = table.int32(2, 128);
  const precision = table.int32(0, 0);
  const scale = table.int32(1, 0);
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
  const size = table.int32(0, 0);
  if (size < 1 || size > limit) throw refuse(path, `a fixed size of ${size} is not between 1 and ${limit}`);
  return size;
}

const unreadable = new Map([
  [14, 'union'],
  [22, 'run_end_encoded'],
  [23, 'binary_view'],
  [24, 'utf8_view'],
  [25, 'list_view'],
  [26, 'large_list_view'],
]);

/** Type numbers are those of the `Type` union in Schema.fbs. */
function dataType(number: number, table: FlatTable, path: readonly string[]): DataType {
  switch (number) {
    case 1:
      return { kind: 'null' };
    case 2:
      return { kind: 'int', bitWidth: intWidth(table), signed: table.uint8(1, 0) !== 0 };
    case 3:
      return { kind: 'float', bitWidth: choose(floatWidths, table.int16(0, 0), 'float precision') };
    case 4:
      return { kind: 'binary' };
    case 5:
      return { kind: 'utf8' };
    case 6:
      return { kind: 'bool' };
    case 7:
      return decimalType(table, path);
    case 8:
      return { kind: 'date', unit: choose(['day', 'ms'] as const, table.int16(0, 1), 'date unit') };
    case 9:
      return timeType(table, path);
    case 10:
      return { kind: 'timestamp', unit: timeUnit(table, 0), timezone: table.text(1) };
    case 11:
      return { kind: 'interval', unit: choose(intervalUnits, table.int16(0, 0), 'interval unit') };
    case 12:
      return { kind: 'list' };
    case 13:
      return { kind: 'struct' };
    case 15:
      return { kind: 'fixed_size_binary', byteWidth: sized(table, path, maxFixedWidthBytes) };
    case 16:
      return { kind: 'fixed_size_list', listSize: sized(table, path, maxListSize) };
    case 17:
      return { kind: 'map' };
    case 18:
      return { kind: 'duration', unit: timeUnit(table, 1) };
    case 19:
      return { kind: 'large_binary' };
    case 20:
      return { kind: 'large_utf8' };
    case 21:
      return { kind: 'large_list' };
    default:
      throw refuse(path, `the Arrow type ${unreadable.get(number) ?? `number ${number}`} is not supported`);
  }
}

function readMetadata(table: FlatTable, field: number, reading: Reading): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  for (const entry of table.tables(field)) {
    const key = entry.text(0) ?? '';
    const value = entry.text(1) ?? '';
    countText(reading, key.length + value.length + entryOverheadBytes);
    metadata.set(key, value);
  }
  return metadata;
}

function countText(reading: Reading, bytes: number): void {
  reading.textBytes += bytes;
  if (reading.textBytes <= maxTextBytes) return;
  throw new LancegateError(
    'TableSchemaValidationError',
    `the schema's names and metadata exceed ${maxTextBytes} bytes`,
  );
}

function countField(reading: Reading): void {
  reading.fields += 1;
  if (reading.fields <= maxFields) return;
  throw new LancegateError('TableSchemaValidationError', `the schema has more than ${maxFields} fields`);
}

function readDictionary(table: FlatTable | undefined): Dictionary | undefined {
  if (table === undefined) return undefined;
  if (table.int16(3, 0) !== 0) throw invalidInput('malformed metadata: the dictionary kind is unknown');
  const indexType = table.table(1);
  // The format lets it be absent for int32; the engine panics on that, and no known writer leaves it out.
  if (indexType === undefined) throw invalidInput('malformed metadata: a dictionary without the type of its indices');
  const index = { bitWidth: intWidth(indexType), signed: indexType.uint8(1, 0) !== 0 };
  return { id: table.int64(0), index, ordered: table.uint8(2, 0) !== 0 };
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

function readField(table: FlatTable, parent: readonly string[], reading: Reading): Field {
  const name = table.text(0) ?? '';
  const path = [...parent, name];
  countField(reading);
  countText(reading, name.length);
  if (path.length > maxDepth) throw refuse(path, `nested more than ${maxDepth} deep`);
  const typeTable = table.table(3);
  if (typeTable === undefined) throw invalidInput('malformed metadata: a field without a type');
  const type = dataType(table.uint8(2, 0), typeTable, path);
  const children = [...table.tables(5)].map((child) => readField(child, path, reading));
  requireChildren(type, children, path);
  const nullable = table.uint8(1, 0) !== 0;
  const dictionary = readDictionary(table.table(4));
  return { name, nullable, type, dictionary, children, metadata: readMetadata(table, 6, reading) };
}

/** The `Schema` table of a message or of a file's footer. */
export function readSchemaTable(table: FlatTable): Schema {
  if (table.int16(0, 0) !== 0) throw invalidInput('the data is big-endian; little-endian is wanted');
  const reading: Reading = { fields: 0, textBytes: 0 };
  const fields = [...table.tables(1)].map((field) => readField(field, [], reading));
  return { fields, metadata: readMetadata(table, 2, reading) };
}

/**
 * The schema of an IPC file, such as the empty one in which the engine hands out a table's schema. No rule about names
 * is applied: the table exists.
 */
export const readSchemaOfIpcFile = (file: Uint8Array): Schema => readSchemaTable(readFooter(file).schema);

/** The schema message of a file, as bytes. */

/** Where the first message of the file begins. The engine pads the magic to 64 bytes. */
export function schemaMessageStart(file: IpcFile): number {
  let at = magic.length;
  while (file.readInt32LE(at) !== continuation) at += 8;
  return at;
}

/** The whole message with its prefix: a view of the file. */
export function schemaMessage({ file }: Pick<IpcChunk, 'file'>): Buffer {
  const start = schemaMessageStart(file);
  return file.subarray(start, start + prefixBytes + file.readInt32LE(start + 4));
}

/**
 * Equal for two chunks only where their schemas are, metadata included; to be part of a key. Writers that say the same
 * schema in other bytes get another fingerprint. A digest, because metadata may take megabytes and queues hold many.
 */
export const schemaFingerprint = (chunk: IpcChunk): string => hash('sha256', schemaMessage(chunk), 'base64');

/** Columns of Arrow's type Null take the table's type: here their schemas, and their values in `typed-nulls.ts`. */

export const isNull = ({ type }: Field): boolean => type.kind === 'null';
export const holdsNull = (field: Field): boolean => isNull(field) || field.children.some(holdsNull);

export const refuseUntyped = (path: readonly string[], why: string): LancegateError =>
  new LancegateError('TableSchemaValidationError', `column ${formatFieldPath({ segments: path })} ${why}`);

/** The field with `target`'s types in place of Null. `TableSchemaValidationError` if `target` allows no NULL there. */
export function withTypedNulls(field: Field, target: Field, parent: readonly string[] = []): Field {
  if (!holdsNull(field)) return field;
  const path = [...parent, field.name];
  if (isNull(field)) {
    if (isNull(target) || target.nullable) return { ...target, name: field.name };
    throw refuseUntyped(path, 'is of type null in the source, and the table does not allow NULL in it');
  }
  if (field.children.length !== target.children.length) return field;
  return { ...field, children: field.children.map((child, i) => withTypedNulls(child, target.children[i]!, path)) };
}

/** The schema that `typeNulls` gives a source that fits the table. A column that holds Null is wholly the table's. */
export function typedSchema(source: Schema, table: Schema): Schema {
  const fields = source.fields.map((field) => targetOf(field, table) ?? field);
  return { ...source, fields };
}

export function targetOf(field: Field, table: Schema): Field | undefined {
  if (!holdsNull(field)) return undefined;
  const target = table.fields.find(({ name }) => name === field.name);
  return target !== undefined && holdsNull(target) ? undefined : target;
}
