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
import { BatchBuffers, type BatchNode } from '../column/batch-buffers.ts';
import { bytesOfBits, childrenOf, columnLayout } from '../column/column-data.ts';
import { exactLength, type FlatTable } from '../format/message.ts';
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

/** Walks the field nodes and buffers of one batch in the order in which the format lays them out. */
class BatchWalk {
  readonly #batch: BatchBuffers;
  readonly #maxDecodedBytes: number;
  readonly #hasDictionary: (id: bigint) => boolean;
  readonly #compressed: boolean;
  #nextNode = 0;
  #nextBuffer = 0;
  longestNode = 0;
  decodedBytes = 0;

  constructor(batch: BatchBuffers, { header, maxDecodedBytes, hasDictionary }: BatchToCheck) {
    this.#batch = batch;
    this.#maxDecodedBytes = maxDecodedBytes;
    this.#hasDictionary = hasDictionary;
    this.#compressed = isCompressed(header.table(3));
    if (header.vector(4, 8).length !== 0) throw invalidInput('view types are not supported');
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

/** Throws `InvalidInput` or `BodyTooLarge`; the caller adds which message it was. */
export function checkBatch(batch: BatchToCheck): CheckedBatch {
  const buffers = new BatchBuffers(batch.header, batch.body);
  const { rows } = buffers;
  const walk = new BatchWalk(buffers, batch);
  for (const field of batch.fields) walk.column(field, rows);
  walk.requireNothingLeft();
  if (Math.max(rows, walk.longestNode) > 8 * walk.decodedBytes + rowsWithoutBits) {
    throw invalidInput(`${walk.longestNode} values in ${walk.decodedBytes} bytes of data`);
  }
  return { rows, decodedBytes: walk.decodedBytes };
}
