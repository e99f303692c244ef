/**
 * The structural check of record batches and dictionary batches, before native code sees them. It reads headers and, of
 * compressed buffers, the eight bytes that declare their size; never a value. It is not a validation of values: UTF-8,
 * offsets inside their data and checksums are the engine's to refuse, which it does with an ordinary error.
 *
 * Why it must be complete: one crafted length makes the engine's library ask for that much memory and abort the
 * process, and a panic in mid-stream makes a create "succeed" with a part of the rows (docs/engine-facts.md, "Crashes and lies").
 * Cost: under a millisecond per 100 MB of large batches; it grows with columns times batches, not with rows.
 */
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { type ColumnLayout, columnLayout } from '../column/column-data.ts';
import { exactLength, type FlatTable, type FlatVector } from '../format/message.ts';
import type { Field } from '../schema/schema.ts';

export interface CheckedBatch {
  readonly rows: number;
  /** Bytes of all buffers after decompression. */
  readonly decodedBytes: number;
}

export interface BatchToCheck {
  /** The `RecordBatch` table of the message. */
  readonly header: FlatTable;
  readonly body: Buffer;
  readonly fields: readonly Field[];
  readonly maxDecodedBytes: number;
  /** Whether the dictionary of this id has arrived. */
  readonly hasDictionary: (id: bigint) => boolean;
}

/**
 * Columns of type null need no bytes, so a hundred bytes could claim any number of rows. Rows beyond one for each bit
 * of the decoded data are allowed up to this many.
 */
const rowsWithoutBits = 1 << 20;
const bytesOfNode = 16;
const bytesOfBuffer = 16;

const bitmapBytes = (values: number): number => Math.ceil(values / 8);

/** Walks the field nodes and buffers of one batch in the order in which the format lays them out. */
class BatchWalk {
  readonly #header: FlatTable;
  readonly #body: Buffer;
  readonly #maxDecodedBytes: number;
  readonly #hasDictionary: (id: bigint) => boolean;
  readonly #nodes: FlatVector;
  readonly #buffers: FlatVector;
  readonly #compressed: boolean;
  #nextNode = 0;
  #nextBuffer = 0;
  longestNode = 0;
  decodedBytes = 0;

  constructor(batch: BatchToCheck) {
    this.#header = batch.header;
    this.#body = batch.body;
    this.#maxDecodedBytes = batch.maxDecodedBytes;
    this.#hasDictionary = batch.hasDictionary;
    this.#nodes = batch.header.vector(1, bytesOfNode);
    this.#buffers = batch.header.vector(2, bytesOfBuffer);
    this.#compressed = isCompressed(batch.header.table(3));
    if (batch.header.vector(4, 8).length !== 0) throw invalidInput('view types are not supported');
  }

  /** `length` is what the parent demands of the column's field node; undefined where a list decides for itself. */
  column(field: Field, length: number | undefined): void {
    const node = this.#node(length);
    const layout = columnLayout(field);
    if (layout.form === 'empty') return;
    if (field.dictionary !== undefined && !this.#hasDictionary(field.dictionary.id)) {
      throw invalidInput(`dictionary ${field.dictionary.id} is used before it has arrived`);
    }
    this.#buffer(node.nulls > 0 ? bitmapBytes(node.length) : 0, 1);
    this.#values(field, layout, node.length);
  }

  requireNothingLeft(): void {
    if (this.#nextNode !== this.#nodes.length) throw invalidInput('more field nodes than the schema has fields');
    if (this.#nextBuffer !== this.#buffers.length) throw invalidInput('more buffers than the schema has columns for');
  }

  #values(field: Field, layout: ColumnLayout, length: number): void {
    switch (layout.form) {
      case 'empty':
        break;
      case 'bits':
        this.#buffer(bitmapBytes(length), 1);
        break;
      case 'fixed':
        this.#buffer(length * layout.widthBytes, field.type.kind === 'fixed_size_binary' ? 1 : layout.widthBytes);
        break;
      case 'variable':
        this.#offsets(length, layout.offsetBytes);
        this.#buffer(0, 1);
        break;
      case 'list':
        this.#offsets(length, layout.offsetBytes);
        this.#children(field, undefined);
        break;
      case 'fixed_size_list':
        this.#children(field, length * layout.listSize);
        break;
      case 'struct':
        this.#children(field, length);
        break;
    }
  }

  #children(field: Field, length: number | undefined): void {
    for (const child of field.children) this.column(child, length);
  }

  #offsets(length: number, width: number): void {
    this.#buffer(length === 0 ? 0 : (length + 1) * width, width);
  }

  #node(expected: number | undefined): { length: number; nulls: number } {
    if (this.#nextNode >= this.#nodes.length) throw invalidInput('fewer field nodes than the schema has fields');
    const at = this.#nodes.at + bytesOfNode * this.#nextNode++;
    const length = this.#int64(at, 'the length of a column');
    const nulls = this.#int64(at + 8, 'the null count of a column');
    if (expected !== undefined && length !== expected) {
      throw invalidInput(`a column of ${length} values where ${expected} belong`);
    }
    if (nulls > length) throw invalidInput(`a column of ${length} values counts ${nulls} nulls`);
    if (length > 8 * this.#maxDecodedBytes + rowsWithoutBits) throw tooLarge(this.#maxDecodedBytes);
    this.longestNode = Math.max(this.longestNode, length);
    return { length, nulls };
  }

  #buffer(leastBytes: number, unitBytes: number): void {
    if (this.#nextBuffer >= this.#buffers.length) throw invalidInput('fewer buffers than the schema has columns for');
    const at = this.#buffers.at + bytesOfBuffer * this.#nextBuffer++;
    const offset = this.#int64(at, 'the offset of a buffer');
    const length = this.#int64(at + 8, 'the length of a buffer');
    if (offset % 8 !== 0) throw invalidInput('a buffer is not aligned to eight bytes');
    if (offset + length > this.#body.length) throw invalidInput('a buffer lies outside its body');
    const decoded = this.#compressed ? this.#decodedLength(offset, length) : length;
    this.decodedBytes += decoded;
    if (this.decodedBytes > this.#maxDecodedBytes) throw tooLarge(this.#maxDecodedBytes);
    if (decoded < leastBytes) throw invalidInput(`a buffer of ${decoded} bytes where ${leastBytes} are needed`);
    // The engine's library panics on a buffer of offsets that is not a whole number of them.
    if (decoded % unitBytes !== 0) throw invalidInput(`a buffer of ${decoded} bytes does not divide by ${unitBytes}`);
  }

  /** A compressed buffer declares its size in front, or -1 where it travels as it is. */
  #decodedLength(offset: number, length: number): number {
    if (length === 0) return 0;
    if (length < 8) throw invalidInput('a compressed buffer does not declare its size');
    const declared = this.#body.readBigInt64LE(offset);
    if (declared === -1n) return length - 8;
    return exactLength(declared, 'the declared size of a compressed buffer');
  }

  #int64(at: number, what: string): number {
    return exactLength(this.#header.bytes.readBigInt64LE(at), what);
  }
}

const tooLarge = (maxBytes: number) =>
  new LancegateError('BodyTooLarge', `it decodes to more than the ${maxBytes} bytes that this service accepts at once`);

function isCompressed(compression: FlatTable | undefined): boolean {
  if (compression === undefined) return false;
  const codec = compression.uint8(0, 0);
  if (codec > 1) throw invalidInput(`compression codec ${codec} is unknown; LZ4_FRAME and ZSTD are supported`);
  if (compression.uint8(1, 0) !== 0) throw invalidInput('only whole buffers can be compressed');
  return true;
}

/** Throws `InvalidInput` or `BodyTooLarge`; the caller adds which message it was. */
export function checkBatch(batch: BatchToCheck): CheckedBatch {
  const rows = batch.header.length(0, 'the number of rows');
  const walk = new BatchWalk(batch);
  for (const field of batch.fields) walk.column(field, rows);
  walk.requireNothingLeft();
  if (Math.max(rows, walk.longestNode) > 8 * walk.decodedBytes + rowsWithoutBits) {
    throw invalidInput(`${walk.longestNode} values in ${walk.decodedBytes} bytes of data`);
  }
  return { rows, decodedBytes: walk.decodedBytes };
}
