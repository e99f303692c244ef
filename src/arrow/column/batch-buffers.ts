/**
 * The nodes and buffers of one batch are checked when it arrives, and read one by one, so that only what is asked for is
 * decompressed.
 */
import { zstdDecompressSync } from 'node:zlib';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { Block } from '../format/ipc-file.ts';
import { exactLength, type FlatTable, type FlatVector, prefixBytes, readMessage } from '../format/message.ts';
import { bytesOfBits, childrenOf, columnLayout, type DataType, type Field } from '../schema/schema.ts';
import { decodeLz4Frame } from './lz4-frame.ts';

export interface BatchNode {
  readonly length: number;
  readonly nulls: number;
}

/** A node, or the range of a buffer, is two int64. */
export const bytesOfPair = 16;
export const noBytes = new Uint8Array(0);
const lz4 = 0;

/** It decodes into one buffer: zlib would collect small ones and join them, which takes the memory twice. */
function decodeZstd(input: Uint8Array, size: number): Uint8Array {
  let bytes: Uint8Array;
  try {
    // The least and the most that zlib takes as the size of a buffer.
    const chunkSize = Math.min(Math.max(size, 64), 2 ** 31);
    bytes = zstdDecompressSync(input, { maxOutputLength: size, chunkSize });
  } catch (error) {
    throw invalidInput('malformed ZSTD data, or more of it than declared', error);
  }
  if (bytes.length === size) return bytes;
  throw invalidInput(`malformed ZSTD data: ${bytes.length} bytes where ${size} are declared`);
}

/** Typed arrays over `bytes` need its start to be a multiple of eight. */
const aligned = (bytes: Uint8Array): Uint8Array => (bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes));

/** It has the nodes and buffers of one batch, in the order of the format. Throws `InvalidInput` for lengths that are out of range. */
export class BatchBuffers {
  readonly rows: number;
  readonly body: Buffer;
  readonly #batch: FlatTable;
  readonly #nodes: FlatVector;
  readonly #buffers: FlatVector;
  readonly #viewed: FlatVector;
  readonly #codec: number | undefined;

  constructor(batch: FlatTable, body: Buffer) {
    this.rows = batch.length(0, 'the number of rows');
    this.body = body;
    this.#batch = batch;
    this.#nodes = batch.vector(1, bytesOfPair);
    this.#buffers = batch.vector(2, bytesOfPair);
    this.#viewed = batch.vector(4, 8);
    this.#codec = batch.table(3)?.uint8(0);
  }

  get nodeCount(): number {
    return this.#nodes.length;
  }

  get bufferCount(): number {
    return this.#buffers.length;
  }

  node(index: number): BatchNode {
    const at = this.#nodes.at + bytesOfPair * index;
    return {
      length: this.#int64(at, 'the length of a column'),
      nulls: this.#int64(at + 8, 'the null count of a column'),
    };
  }

  /** Counts columns of views. */
  get viewCount(): number {
    return this.#viewed.length;
  }

  /** Counts the buffers that the views of a column point into. */
  viewedBuffers(index: number): number {
    return this.#int64(this.#viewed.at + 8 * index, 'the number of buffers of a column');
  }

  /** The buffer lies there in the body, in bytes. */
  range(index: number): { readonly offset: number; readonly length: number } {
    const at = this.#buffers.at + bytesOfPair * index;
    return {
      offset: this.#int64(at, 'the offset of a buffer'),
      length: this.#int64(at + 8, 'the length of a buffer'),
    };
  }

  /**
   * Gives the buffer's bytes, decompressed, at a multiple of eight. `checkBatch` has passed the batch: the buffer lies
   * in the body, and its declared size is within the budget.
   */
  buffer(index: number): Uint8Array {
    const { offset, length } = this.range(index);
    const bytes = this.body.subarray(offset, offset + length);
    if (this.#codec === undefined || bytes.length === 0) return aligned(bytes);
    const size = Number(bytes.readBigInt64LE(0));
    const content = bytes.subarray(8);
    if (size === -1) return aligned(content);
    if (size === 0) return noBytes;
    return aligned(this.#codec === lz4 ? decodeLz4Frame(content, size) : decodeZstd(content, size));
  }

  #int64(at: number, what: string): number {
    return exactLength(this.#batch.bytes.readBigInt64LE(at), what);
  }
}

function openBlock(file: Buffer, block: Block): { header: FlatTable; body: Buffer } {
  const bodyAt = block.offset + block.metaLength;
  const { header } = readMessage(file.subarray(block.offset + prefixBytes, bodyAt));
  return { header, body: file.subarray(bodyAt, bodyAt + block.bodyLength) };
}

export function openBatch(file: Buffer, block: Block): BatchBuffers {
  const { header, body } = openBlock(file, block);
  return new BatchBuffers(header, body);
}

export function openDictionary(file: Buffer, block: Block): { readonly id: bigint; readonly values: BatchBuffers } {
  const { header, body } = openBlock(file, block);
  const values = header.table(1);
  if (values === undefined) throw invalidInput('a dictionary has no values');
  return { id: header.int64(0), values: new BatchBuffers(values, body) };
}

export interface CheckedBatch {
  readonly rows: number;
  readonly decodedBytes: number;
}

interface BatchToCheck {
  /** It is the `RecordBatch` table of the message. */
  readonly header: FlatTable;
  readonly body: Buffer;
  readonly fields: readonly Field[];
  readonly maxDecodedBytes: number;
  /** Says whether the dictionary of this id has arrived. */
  readonly hasDictionary: (id: bigint) => boolean;
  /** Values of these types lie as views; the engine takes none. */
  readonly views?: ReadonlySet<DataType>;
}

export const noViews: ReadonlySet<DataType> = new Set();
/** A view has the length of a value and its first bytes, and says where the others are. */
export const bytesOfView = 16;

/**
 * Columns of type null need no bytes, so a hundred bytes could claim any number of rows. Rows beyond one for each bit
 * of the decoded data are allowed up to this many.
 */
export const rowsWithoutBits = 1 << 20;

/** Walks the field nodes and buffers of one batch in the order in which the format lays them out. */
class BatchWalk {
  readonly #batch: BatchBuffers;
  readonly #maxDecodedBytes: number;
  readonly #hasDictionary: (id: bigint) => boolean;
  readonly #views: ReadonlySet<DataType>;
  readonly #compressed: boolean;
  #nextNode = 0;
  #nextBuffer = 0;
  #nextView = 0;
  longestNode = 0;
  decodedBytes = 0;

  constructor(batch: BatchBuffers, { header, maxDecodedBytes, hasDictionary, views = noViews }: BatchToCheck) {
    this.#batch = batch;
    this.#maxDecodedBytes = maxDecodedBytes;
    this.#hasDictionary = hasDictionary;
    this.#views = views;
    this.#compressed = isCompressed(header.table(3));
  }

  /** `length` is what the parent demands of the column's field node; undefined where a list decides for itself. */
  column(field: Field, length: number | undefined): void {
    const node = this.#node(length);
    const { hasBitmap, offsetBytes, valueBits, childValues } = columnLayout(field);
    if (!hasBitmap) return;
    if (field.dictionary !== undefined && !this.#hasDictionary(field.dictionary.id)) {
      throw invalidInput(`dictionary ${field.dictionary.id} is used before it has arrived`);
    }
    this.#buffer(node.nulls > 0 ? bytesOfBits(node.length) : 0, 1);
    if (field.dictionary === undefined && this.#views.has(field.type)) {
      this.#viewColumn(node);
      return;
    }
    if (offsetBytes > 0) this.#buffer(node.length === 0 ? 0 : (node.length + 1) * offsetBytes, offsetBytes);
    if (valueBits !== undefined) {
      const unitBytes = field.type.kind === 'fixed_size_binary' ? 1 : Math.max(1, valueBits / 8);
      this.#buffer(bytesOfBits(node.length * valueBits), unitBytes);
    }
    const lengthOfChild = childValues === undefined ? undefined : node.length * childValues;
    for (const child of childrenOf(field)) this.column(child, lengthOfChild);
  }

  requireNothingLeft(): void {
    if (this.#nextNode !== this.#batch.nodeCount) throw invalidInput('more field nodes than the schema has fields');
    if (this.#nextBuffer !== this.#batch.bufferCount)
      throw invalidInput('more buffers than the schema has columns for');
    if (this.#nextView !== this.#batch.viewCount) throw invalidInput('more columns of views than the schema has');
  }

  #viewColumn({ length }: BatchNode): void {
    if (this.#nextView >= this.#batch.viewCount) throw invalidInput('fewer columns of views than the schema has');
    this.#buffer(length * bytesOfView, bytesOfView);
    for (let left = this.#batch.viewedBuffers(this.#nextView++); left > 0; left--) this.#buffer(0, 1);
  }

  #node(expected: number | undefined): BatchNode {
    if (this.#nextNode >= this.#batch.nodeCount) throw invalidInput('fewer field nodes than the schema has fields');
    const node = this.#batch.node(this.#nextNode++);
    const { length, nulls } = node;
    if (expected !== undefined && length !== expected) {
      throw invalidInput(`a column of ${length} values where ${expected} belong`);
    }
    if (nulls > length) throw invalidInput(`a column of ${length} values counts ${nulls} nulls`);
    if (length > 8 * this.#maxDecodedBytes + rowsWithoutBits) throw tooLarge(this.#maxDecodedBytes);
    this.longestNode = Math.max(this.longestNode, length);
    return node;
  }

  #buffer(leastBytes: number, unitBytes: number): void {
    if (this.#nextBuffer >= this.#batch.bufferCount)
      throw invalidInput('fewer buffers than the schema has columns for');
    const { offset, length } = this.#batch.range(this.#nextBuffer++);
    if (offset % 8 !== 0) throw invalidInput('a buffer is not aligned to eight bytes');
    if (offset + length > this.#batch.body.length) throw invalidInput('a buffer lies outside its body');
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
    const declared = this.#batch.body.readBigInt64LE(offset);
    if (declared === -1n) return length - 8;
    return exactLength(declared, 'the declared size of a compressed buffer');
  }
}

const tooLarge = (maxBytes: number) =>
  new LancegateError('BodyTooLarge', `it decodes to more than the ${maxBytes} bytes that this service accepts at once`);

function isCompressed(compression: FlatTable | undefined): boolean {
  if (compression === undefined) return false;
  const codec = compression.uint8(0);
  if (codec > 1) throw invalidInput(`compression codec ${codec} is unknown; LZ4_FRAME and ZSTD are supported`);
  if (compression.uint8(1) !== 0) throw invalidInput('only whole buffers can be compressed');
  return true;
}

/**
 * The structural check of record batches and dictionary batches, before native code sees them. It reads headers and, of
 * compressed buffers, the eight bytes that declare their size; never a value. It is not a validation of values: UTF-8,
 * offsets inside their data and checksums are the engine's to refuse, which it does with an ordinary error.
 *
 * Why it must be complete: one crafted length makes the engine's library ask for that much memory and abort the
 * process, and a panic in mid-stream makes a create "succeed" with a part of the rows (docs/engine-facts.md, "Crashes and lies").
 * Cost: under a millisecond per 100 MB of large batches; it grows with columns times batches, not with rows.
 *
 * Answers the bytes of all buffers after decompression. Throws `InvalidInput` or `BodyTooLarge`; the caller adds which message
 * it was.
 */
export function checkBatch(batch: BatchToCheck): CheckedBatch {
  const buffers = new BatchBuffers(batch.header, batch.body);
  const { rows } = buffers;
  if (batch.fields.length === 0 && rows > 0) throw invalidInput(`${rows} rows without columns`);
  const walk = new BatchWalk(buffers, batch);
  for (const field of batch.fields) walk.column(field, rows);
  walk.requireNothingLeft();
  if (Math.max(rows, walk.longestNode) > 8 * walk.decodedBytes + rowsWithoutBits) {
    throw invalidInput(`${walk.longestNode} values in ${walk.decodedBytes} bytes of data`);
  }
  return { rows, decodedBytes: walk.decodedBytes };
}
