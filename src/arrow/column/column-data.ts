/**
 * Reads the columns of a batch, decompressed, as the buffers they are. Batches that were only checked for structure become safe
 * to copy from: offsets, UTF-8 and NULLs where the schema has none are checked here, over all values, also those that no
 * row refers to, as the engine's library does.
 */
import { isUtf8 } from 'node:buffer';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import type { Block, IpcFile } from '../format/ipc-file.ts';
import { formatFieldPath } from '../schema/field-path.ts';
import {
  bytesOfBits,
  childrenOf,
  columnLayout,
  type DataType,
  type Field,
  type IpcChunk,
  valuesField,
} from '../schema/schema.ts';
import {
  type BatchBuffers,
  type BatchNode,
  bytesOfView,
  noBytes,
  noViews,
  openBatch,
  openDictionary,
} from './batch-buffers.ts';

/** Bit `i` of an Arrow bitmap is bit `i % 8`, counted from the lowest, of byte `i / 8`. */
export const bitAt = (bitmap: Uint8Array, index: number): boolean => ((bitmap[index >> 3]! >> (index & 7)) & 1) === 1;

export function setBit(bitmap: Uint8Array, index: number): void {
  bitmap[index >> 3]! |= 1 << (index & 7);
}

/** Counts the bits from `start` to before `end` that are zero. */
export function countZeros(bitmap: Uint8Array, start: number, end: number): number {
  let ones = 0;
  for (let i = start; i < end; i++) ones += (bitmap[i >> 3]! >> (i & 7)) & 1;
  return end - start - ones;
}

/** Offsets are held in 32 bits. A larger one lies outside of anything that fits into a chunk. */
const largestOffset = 0xffff_ffff;

/** `bytes` start at a multiple of eight. */
function narrowOffsets(bytes: Uint8Array, count: number): Uint32Array {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, 2 * count);
  const offsets = new Uint32Array(count);
  for (let i = 0; i < count; i++) offsets[i] = words[2 * i + 1] === 0 ? words[2 * i]! : largestOffset;
  return offsets;
}

/**
 * Reads the offsets of `length` values: value `i` goes from offset `i` to offset `i + 1`. They may be a view of `bytes`, not to be
 * written. `limit` is how much there is to point into. Throws `InvalidInput`.
 */
function readOffsets(bytes: Uint8Array, offsetBytes: 4 | 8, length: number, limit: number): Uint32Array {
  // The buffer of no values may be empty.
  if (length === 0) return new Uint32Array(1);
  const offsets =
    offsetBytes === 4 ? new Uint32Array(bytes.buffer, bytes.byteOffset, length + 1) : narrowOffsets(bytes, length + 1);
  let before = 0;
  for (let i = 0; i <= length; i++) {
    const offset = offsets[i]!;
    if (offset < before) throw invalidInput('its offsets run backwards');
    before = offset;
  }
  if (before > limit) throw invalidInput('its offsets lie outside its data');
  return offsets;
}

export const isText = (type: DataType): boolean => type.kind === 'utf8' || type.kind === 'large_utf8';

/** Each value must be UTF-8 by itself: the whole is, and none begins within a character. Throws `InvalidInput`. */
function requireUtf8(bytes: Uint8Array, offsets: Uint32Array): void {
  const end = offsets.at(-1) ?? 0;
  if (!isUtf8(bytes.subarray(offsets[0], end))) throw invalidInput('a text is not UTF-8');
  for (const start of offsets) {
    if (start < end && (bytes[start]! & 0xc0) === 0x80) throw invalidInput('a text is not UTF-8');
  }
}

export interface ColumnData {
  readonly length: number;
  /** It has a bit for each value, zero where it is NULL; undefined where none is. */
  readonly validity: Uint8Array | undefined;
  /** They are bits, values of one width, or what the offsets of texts and the like point into; other layouts have none. */
  readonly bytes: Uint8Array;
  /** Values of no fixed width and lists have one more than there are values; other layouts have none. */
  readonly offsets: Uint32Array;
  readonly children: readonly ColumnData[];
}

const noOffsets = new Uint32Array(0);

/** Takes the nodes and buffers of a batch in the order of the format: a column, then its children. */
class BatchCursor {
  readonly #batch: BatchBuffers;
  #nextNode = 0;
  #nextBuffer = 0;
  #nextView = 0;
  readonly #views: ReadonlySet<DataType>;

  constructor(batch: BatchBuffers, views = noViews) {
    this.#batch = batch;
    this.#views = views;
  }

  column(field: Field): ColumnData {
    const node = this.#batch.node(this.#nextNode++);
    const { length } = node;
    const { hasBitmap, offsetBytes, valueBits } = columnLayout(field);
    if (!hasBitmap) return { length, validity: onlyNulls(length), bytes: noBytes, offsets: noOffsets, children: [] };
    const validity = checkedNulls(this.#buffer(), node);
    if (field.dictionary === undefined && this.#views.has(field.type)) {
      const viewed = this.#viewed(length, validity);
      if (isText(field.type)) requireUtf8(viewed.bytes, viewed.offsets);
      return { length, validity, ...viewed, children: [] };
    }
    const packed = offsetBytes === 0 ? noBytes : this.#buffer();
    const bytes = valueBits === undefined ? noBytes : this.#buffer();
    const fields = childrenOf(field);
    const children = fields.map((child) => this.column(child));
    const limit = children[0]?.length ?? bytes.length;
    const offsets = offsetBytes === 0 ? noOffsets : readOffsets(packed, offsetBytes, length, limit);
    if (isText(field.type) && offsetBytes > 0) requireUtf8(bytes, offsets);
    const column = { length, validity, bytes, offsets, children };
    for (const [child, data] of paired(fields, children))
      if (hasUnexpectedNull(child, data, field, column)) throw unexpectedNull();
    return column;
  }

  /** Joins the values that views point to, one behind the other; many may point to the same bytes. */
  #viewed(length: number, validity: Uint8Array | undefined): Pick<ColumnData, 'bytes' | 'offsets'> {
    const views = asView(this.#buffer());
    const buffers = Array.from({ length: this.#batch.viewedBuffers(this.#nextView++) }, () => this.#buffer());
    const offsets = new Uint32Array(length + 1);
    let end = 0;
    for (let i = 0; i < length; i++) {
      if (validity === undefined || bitAt(validity, i)) end += views.getUint32(i * bytesOfView, true);
      if (end > largestOffset) throw invalidInput(`its values take more than ${largestOffset} bytes in one batch`);
      offsets[i + 1] = end;
    }
    const bytes = new Uint8Array(end);
    for (const [i, start] of offsets.subarray(0, length).entries()) {
      const value = valueOfView(views, i * bytesOfView, offsets[i + 1]! - start, buffers);
      bytes.set(value, start);
    }
    return { bytes, offsets };
  }

  /** Reads the bits of a struct, whose children come next: zero where it is NULL; undefined where it nowhere is. */
  struct(): Uint8Array | undefined {
    return checkedNulls(this.#buffer(), this.#batch.node(this.#nextNode++));
  }

  skip(field: Field): void {
    const { hasBitmap, offsetBytes, valueBits } = columnLayout(field);
    this.#nextNode += 1;
    this.#nextBuffer += Number(hasBitmap) + Number(offsetBytes > 0) + Number(valueBits !== undefined);
    for (const child of childrenOf(field)) this.skip(child);
  }

  #buffer(): Uint8Array {
    return this.#batch.buffer(this.#nextBuffer++);
  }
}

/** A count of zero means that the bitmap is to be ignored, to the engine too. It refuses other counts that are wrong. */
function checkedNulls(bitmap: Uint8Array, { length, nulls }: BatchNode): Uint8Array | undefined {
  if (nulls === 0) return undefined;
  const found = countZeros(bitmap, 0, length);
  if (found !== nulls) throw invalidInput(`it counts ${nulls} nulls and holds ${found}`);
  return bitmap;
}

/** A column of type null has no bitmap, and nothing but NULL. */
const onlyNulls = (length: number): Uint8Array | undefined =>
  length === 0 ? undefined : new Uint8Array(bytesOfBits(length));

const asView = ({ buffer, byteOffset, length }: Uint8Array): DataView => new DataView(buffer, byteOffset, length);

function valueOfView(views: DataView, at: number, length: number, buffers: readonly Uint8Array[]): Uint8Array {
  // A view holds a value of up to twelve bytes itself.
  if (length <= 12) return new Uint8Array(views.buffer, views.byteOffset + at + 4, length);
  const buffer = buffers[views.getUint32(at + 8, true)];
  const start = views.getUint32(at + 12, true);
  if (buffer === undefined || start + length > buffer.length) throw invalidInput('a view points outside its buffers');
  return buffer.subarray(start, start + length);
}

export const isNullAt = ({ validity }: ColumnData, index: number): boolean =>
  validity !== undefined && !bitAt(validity, index);

/** Says whether a field declared without NULL holds one, other than in a struct or a fixed-size list that is NULL itself. */
export function hasUnexpectedNull(field: Field, data: ColumnData, parent: Field, around: ColumnData): boolean {
  if (field.nullable || data.validity === undefined) return false;
  const { childValues } = columnLayout(parent);
  if (childValues === undefined) return true;
  for (let i = 0; i < data.length; i++) {
    if (isNullAt(data, i) && !isNullAt(around, Math.floor(i / childValues))) return true;
  }
  return false;
}

const unexpectedNull = () => invalidInput('it holds a NULL where its schema has none');

function readColumn(cursor: BatchCursor, field: Field): ColumnData {
  try {
    const column = cursor.column(field);
    if (!field.nullable && column.validity !== undefined) throw unexpectedNull();
    return column;
  } catch (error) {
    if (!(error instanceof LancegateError)) throw error;
    const shown = formatFieldPath({ segments: [field.name] });
    throw new LancegateError(error.kind, `column ${shown}: ${error.message}`, { cause: error.cause });
  }
}

/**
 * Reads all columns of a chunk without dictionaries, batch by batch. Uncompressed buffers are views of the chunk. Throws
 * `InvalidInput` naming the column for invalid buffers; a caller may want that check alone.
 */
export const readColumns = (chunk: IpcChunk): { readonly rows: number; readonly columns: readonly ColumnData[] }[] =>
  chunk.batches.map((block) => {
    const batch = openBatch(chunk.file, block);
    return { rows: batch.rows, columns: readBatch(batch, chunk.schema.fields) };
  });

/** Reads the columns of a batch without dictionaries, as `readColumns` does. */
export function readBatch(batch: BatchBuffers, fields: readonly Field[], views = noViews): readonly ColumnData[] {
  const cursor = new BatchCursor(batch, views);
  return fields.map((field) => readColumn(cursor, field));
}

/** Reads the values of a dictionary-encoded column, in as many parts as the file has of its dictionary. */
export const readDictionary = (file: IpcFile, dictionaries: readonly Block[], field: Field): readonly ColumnData[] =>
  dictionaries
    .map((block) => openDictionary(file, block))
    .filter(({ id }) => id === field.dictionary?.id)
    .flatMap(({ values }) => readBatch(values, [valuesField(field)]));

/** A column, perhaps inside structs, comes with the bits of those structs and its own, of which there are none where nothing is NULL. */
export interface NestedColumn {
  readonly data: ColumnData;
  readonly validities: readonly Uint8Array[];
}

/** Reads the field inside of the structs `around`, the first of which is one of `fields`. No other column is decompressed. */
export function readNestedColumn(
  batch: BatchBuffers,
  fields: readonly Field[],
  around: readonly Field[],
  field: Field,
): NestedColumn {
  const cursor = new BatchCursor(batch);
  let siblings = fields;
  const skipTo = (next: Field): void => {
    for (const sibling of siblings.slice(0, siblings.indexOf(next))) cursor.skip(sibling);
    siblings = next.children;
  };
  const validities = around.map((struct) => {
    skipTo(struct);
    return cursor.struct();
  });
  skipTo(field);
  const data = cursor.column(field);
  return { data, validities: [...validities, data.validity].filter((bits) => bits !== undefined) };
}

/** JavaScript reads a binary16 (IEEE 754) only in later releases of Node than the oldest that runs this. */
export function halfFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** Puts the point into a decimal: `-0.05`. */
export function decimalText(unscaled: bigint, scale: number): string {
  if (scale <= 0) return String(unscaled * 10n ** BigInt(-scale));
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/** The values of a column of unsigned integers of 64 bits, such as row addresses. */
export const wordsOf = ({ bytes }: ColumnData, rows: number): BigUint64Array =>
  new BigUint64Array(bytes.buffer, bytes.byteOffset, rows);
