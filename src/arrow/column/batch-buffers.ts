/** Access to single buffers of one batch inside a chunk: only what is asked for is decompressed. */
import { zstdDecompressSync } from 'node:zlib';
import { invalidInput } from '../../kernel/errors.ts';
import type { Block } from '../format/ipc-file.ts';
import { exactLength, type FlatTable, type FlatVector, prefixBytes, readMessage } from '../format/message.ts';
import { decodeLz4Frame } from './lz4-frame.ts';

export interface BatchNode {
  readonly length: number;
  readonly nulls: number;
}

/** A node or the range of a buffer: two int64. */
const bytesOfPair = 16;
const noBytes = new Uint8Array(0);
const lz4 = 0;

/** Into one buffer: zlib would collect small ones and join them, which takes the memory twice. */
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

/** The nodes and buffers of one batch, by the order of the format. Throws `InvalidInput` for lengths that are out of range. */
export class BatchBuffers {
  readonly rows: number;
  readonly body: Buffer;
  readonly #batch: FlatTable;
  readonly #nodes: FlatVector;
  readonly #buffers: FlatVector;
  readonly #codec: number | undefined;

  constructor(batch: FlatTable, body: Buffer) {
    this.rows = batch.length(0, 'the number of rows');
    this.body = body;
    this.#batch = batch;
    this.#nodes = batch.vector(1, bytesOfPair);
    this.#buffers = batch.vector(2, bytesOfPair);
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

  /** Where the buffer lies in the body, in bytes. */
  range(index: number): { readonly offset: number; readonly length: number } {
    const at = this.#buffers.at + bytesOfPair * index;
    return {
      offset: this.#int64(at, 'the offset of a buffer'),
      length: this.#int64(at + 8, 'the length of a buffer'),
    };
  }

  /**
   * The buffer's bytes, decompressed, starting at a multiple of eight. For batches that `checkBatch` has passed: the buffer lies
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
