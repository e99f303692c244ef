/**
 * Reads one key column of a chunk: which rows are NULL, and the values over all batches as bytes, dictionaries resolved. Equal keys
 * have equal bytes, since all NaNs are made the same, and both zeros.
 */
import { openBatch, openDictionary } from '../arrow/column/batch-buffers.ts';
import { bitAt, type ColumnData, type NestedColumn, readNestedColumn } from '../arrow/column/column-data.ts';
import { type FieldPath, formatFieldPath, resolveFieldChain } from '../arrow/schema/field-path.ts';
import { columnLayout, type Field, type IpcChunk, typeName } from '../arrow/schema/schema.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';

export interface KeyColumn {
  readonly field: Field;
  readonly values: KeyValues;
  /** It has a byte for each row, 1 where the key is NULL; undefined where none is. */
  readonly nulls: Uint8Array | undefined;
  /** It says whether a value that is not NULL is a float that other bytes can be, too: a NaN or a zero. */
  readonly hasSpellings: boolean;
}

/** What a value is compared by: `<` is the order of its column. undefined for NULL and NaN, which are older than all others. */
export type OrderedValue = number | bigint | string | undefined;

/** They are contiguous where all values have one width, else ranges of a common buffer. */
export type KeyValues =
  | { readonly form: 'fixed'; readonly widthBytes: number; readonly bytes: Uint8Array }
  | {
      readonly form: 'variable';
      readonly bytes: Uint8Array;
      readonly starts: Uint32Array;
      readonly ends: Uint32Array;
    };

/** Throws `TableColumnNotFound`; `InvalidInput` for a type that cannot be a key and for invalid buffers. A version is read as a key is. */
export function readKeyColumn(chunk: IpcChunk, path: FieldPath, role: 'key' | 'version' = 'key'): KeyColumn {
  const shown = formatFieldPath(path);
  const chain = resolveFieldChain(chunk.schema, path);
  const field = chain?.at(-1);
  if (chain === undefined || field === undefined) {
    throw new LancegateError('TableColumnNotFound', `the source has no column ${shown}`);
  }
  if (kindsOfNoKey.includes(field.type.kind))
    throw invalidInput(`column ${shown} of type ${typeName(field)} cannot be a ${role}`);
  if (isMisread(path)) throw invalidInput(`column ${shown} cannot be a ${role}: its name is * or holds a double quote`);
  try {
    return readColumn(chunk, chain.slice(0, -1), field);
  } catch (error) {
    if (!(error instanceof LancegateError)) throw error;
    throw new LancegateError(error.kind, `${role} column ${shown}: ${error.message}`, { cause: error.cause });
  }
}

const kindsOfNoKey: readonly string[] = ['null', 'list', 'large_list', 'fixed_size_list', 'map', 'struct', 'interval'];

/** The engine reads the names of keys as SQL, but for those in structs, which never reach it. */
const isMisread = ({ segments }: FieldPath): boolean => segments.length === 1 && /^\*$|"/.test(segments[0] ?? '');

function readColumn(chunk: IpcChunk, around: readonly Field[], field: Field): KeyColumn {
  const columns = chunk.batches.map((block) =>
    readNestedColumn(openBatch(chunk.file, block), chunk.schema.fields, around, field),
  );
  const { values, nulls } = joined(columns, field);
  if (field.dictionary !== undefined) {
    const dictionary = readDictionary(chunk, field, field.dictionary.id);
    return { field, nulls, ...normaliseFloats(field, resolveIndices(values, nulls, field, dictionary), nulls) };
  }
  const hasNull = columns.some(({ validities }) => validities.length > 0);
  return { field, ...normaliseFloats(field, values, nulls), nulls: hasNull ? nulls : undefined };
}

interface ColumnValues {
  readonly values: KeyValues;
  /** It has a byte for each value, 1 where it is NULL. */
  readonly nulls: Uint8Array;
}

function joined(columns: readonly NestedColumn[], field: Field): ColumnValues {
  const values = concatenateValues(columns.map(({ data }) => valuesOf(data, field)));
  const nulls = new Uint8Array(columns.reduce((sum, { data }) => sum + data.length, 0));
  let start = 0;
  for (const { data, validities } of columns) {
    for (const bits of validities) markNulls(nulls.subarray(start, start + data.length), bits);
    start += data.length;
  }
  return { values, nulls };
}

function markNulls(nulls: Uint8Array, bits: Uint8Array): void {
  for (let i = 0; i < nulls.length; i++) if (!bitAt(bits, i)) nulls[i] = 1;
}

/** Gives the values of `field`; of a dictionary-encoded column its indices. */
function valuesOf(data: ColumnData, field: Field): KeyValues {
  const { bytes, offsets, length } = data;
  const { offsetBytes, valueBits } = columnLayout(field);
  if (valueBits === undefined) throw new LancegateError('Internal', `${field.type.kind} values are no keys`);
  if (offsetBytes > 0)
    return { form: 'variable', bytes, starts: offsets.subarray(0, length), ends: offsets.subarray(1) };
  if (valueBits === 1) return { form: 'fixed', widthBytes: 1, bytes: bitValues(data) };
  const widthBytes = valueBits / 8;
  return { form: 'fixed', widthBytes, bytes: bytes.subarray(0, length * widthBytes) };
}

function bitValues({ bytes, length }: ColumnData): Uint8Array {
  const values = new Uint8Array(length);
  for (let row = 0; row < length; row++) values[row] = Number(bitAt(bytes, row));
  return values;
}

/** All parts are of one form. A column without a batch has none. */
function concatenateValues(parts: readonly KeyValues[]): KeyValues {
  const [first] = parts;
  if (first === undefined) return { form: 'fixed', widthBytes: 1, bytes: new Uint8Array(0) };
  if (parts.length === 1) return first;
  if (first.form === 'fixed') return { ...first, bytes: Buffer.concat(parts.map(({ bytes }) => bytes)) };
  return concatenateVariable(parts.filter((part) => part.form === 'variable'));
}

/** Offsets are held in 32 bits, which bounds the bytes of one key column. */
const maxVariableBytes = 0xffff_ffff;

function concatenateVariable(parts: readonly (KeyValues & { form: 'variable' })[]): KeyValues {
  const bytesTotal = parts.reduce((sum, part) => sum + part.bytes.length, 0);
  if (bytesTotal > maxVariableBytes) throw invalidInput(`its keys exceed ${maxVariableBytes} bytes`);
  const count = parts.reduce((sum, part) => sum + part.starts.length, 0);
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  let bytesEnd = 0;
  let row = 0;
  for (const part of parts) {
    for (let i = 0; i < part.starts.length; i++, row++) {
      starts[row] = part.starts[i]! + bytesEnd;
      ends[row] = part.ends[i]! + bytesEnd;
    }
    bytesEnd += part.bytes.length;
  }
  return { form: 'variable', bytes: Buffer.concat(parts.map(({ bytes }) => bytes)), starts, ends };
}

function readDictionary(chunk: IpcChunk, field: Field, id: bigint): ColumnValues {
  const plain: Field = { ...field, dictionary: undefined };
  const batches = chunk.dictionaries
    .map((block) => openDictionary(chunk.file, block))
    .filter((dictionary) => dictionary.id === id);
  return joined(
    batches.map(({ values }) => readNestedColumn(values, [plain], [], plain)),
    plain,
  );
}

/** Replaces indices by what they stand for; a NULL in the dictionary is a NULL in the column. */
function resolveIndices(indices: KeyValues, nulls: Uint8Array, field: Field, dictionary: ColumnValues): KeyValues {
  if (indices.form !== 'fixed') throw new LancegateError('Internal', 'indices have one width');
  const { bytes, widthBytes } = indices;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isSigned = field.dictionary?.index.signed ?? true;
  const size = dictionary.nulls.length;
  const picks = new Uint32Array(nulls.length);
  for (let row = 0; row < picks.length; row++) {
    if (nulls[row] === 1) continue;
    const index = Number(integerAt(view, row * widthBytes, widthBytes, isSigned));
    if (index < 0 || index >= size) throw invalidInput(`index ${index} lies outside a dictionary of ${size} values`);
    picks[row] = index;
    nulls[row] = dictionary.nulls[index]!;
  }
  // Null rows pick value 0, which an empty dictionary does not have.
  return size === 0
    ? { form: 'fixed', widthBytes: 1, bytes: new Uint8Array(nulls.length) }
    : pickValues(dictionary.values, picks);
}

/** Reads a little-endian integer of any width. */
export function integerAt(view: DataView, at: number, widthBytes: number, isSigned: boolean): number | bigint {
  switch (widthBytes) {
    case 1:
      return isSigned ? view.getInt8(at) : view.getUint8(at);
    case 2:
      return isSigned ? view.getInt16(at, true) : view.getUint16(at, true);
    case 4:
      return isSigned ? view.getInt32(at, true) : view.getUint32(at, true);
    case 8:
      return isSigned ? view.getBigInt64(at, true) : view.getBigUint64(at, true);
    default: {
      let value = 0n;
      for (let k = widthBytes - 8; k >= 0; k -= 8) value = (value << 64n) | view.getBigUint64(at + k, true);
      return isSigned ? BigInt.asIntN(widthBytes * 8, value) : value;
    }
  }
}

/** Takes the values at `picks`; row `i` of the result is value `picks[i]`. Picks of null rows must be in range, too. */
function pickValues(values: KeyValues, picks: Uint32Array): KeyValues {
  if (values.form === 'variable') {
    const { bytes, starts, ends } = values;
    return {
      form: 'variable',
      bytes,
      starts: picks.map((pick) => starts[pick]!),
      ends: picks.map((pick) => ends[pick]!),
    };
  }
  const { widthBytes } = values;
  const bytes = new Uint8Array(picks.length * widthBytes);
  for (const [row, pick] of picks.entries()) {
    for (let k = 0; k < widthBytes; k++) bytes[row * widthBytes + k] = values.bytes[pick * widthBytes + k]!;
  }
  return { form: 'fixed', widthBytes, bytes };
}

/** Makes all NaNs of a float column the same bytes, and all zeros. */
function normaliseFloats(
  { type }: Field,
  values: KeyValues,
  nulls: Uint8Array,
): Pick<KeyColumn, 'values' | 'hasSpellings'> {
  if (type.kind !== 'float' || values.form !== 'fixed') return { values, hasSpellings: false };
  // The bytes may be the client's own, which the engine is yet to read.
  const { buffer } = Uint8Array.from(values.bytes);
  const isNormalised = type.bitWidth === 16 ? ofHalves(new Uint16Array(buffer)) : ofFloats(type.bitWidth, buffer);
  let hasSpellings = false;
  for (let row = 0; row < values.bytes.length / values.widthBytes; row++) {
    if (isNormalised(row) && nulls[row] === 0) hasSpellings = true;
  }
  return { values: { ...values, bytes: new Uint8Array(buffer) }, hasSpellings };
}

/** Says whether the value of a row is a NaN or a zero, which then has its one form. */
type NormaliseRow = (row: number) => boolean;

function ofFloats(bitWidth: 32 | 64, buffer: ArrayBuffer): NormaliseRow {
  const floats = bitWidth === 32 ? new Float32Array(buffer) : new Float64Array(buffer);
  return (row) => {
    const value = floats[row]!;
    if (value !== 0 && !Number.isNaN(value)) return false;
    floats[row] = value === 0 ? 0 : Number.NaN;
    return true;
  };
}

/** Reads them by their bits: not every Node that runs this has an array of them. */
const ofHalves =
  (halves: Uint16Array): NormaliseRow =>
  (row) => {
    const magnitude = halves[row]! & 0x7fff;
    if (magnitude !== 0 && magnitude <= 0x7c00) return false;
    halves[row] = magnitude === 0 ? 0 : 0x7e00;
    return true;
  };

export interface KeyMeasure {
  readonly allBytes: number;
  readonly longest: { readonly row: number; readonly bytes: number };
}

/** Measures keys with dictionaries resolved: in a dictionary, a long value costs each row that has it one byte. */
export function measureKeys(columns: readonly KeyColumn[], rows: number): KeyMeasure {
  let longest = { row: 0, bytes: 0 };
  let allBytes = 0;
  for (let row = 0; row < rows; row++) {
    let bytes = 0;
    for (const { values } of columns)
      bytes += values.form === 'fixed' ? values.widthBytes : values.ends[row]! - values.starts[row]!;
    allBytes += bytes;
    if (bytes > longest.bytes) longest = { row, bytes };
  }
  return { allBytes, longest };
}

export const valueAt = (values: KeyValues, row: number): Uint8Array =>
  values.form === 'fixed'
    ? values.bytes.subarray(row * values.widthBytes, (row + 1) * values.widthBytes)
    : values.bytes.subarray(values.starts[row], values.ends[row]);
