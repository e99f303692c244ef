/** Access to single buffers of one batch inside a chunk: only what is asked for is decompressed. */
import { zstdDecompressSync } from 'node:zlib';
import { invalidInput } from '../../kernel/errors.ts';
import type { Block } from '../format/ipc-file.ts';
import { type FlatTable, type FlatVector, prefixBytes, readMessage } from '../format/message.ts';
import { decodeLz4Frame } from './lz4-frame.ts';

export interface BatchNode {
  readonly length: number;
  readonly nulls: number;
}

const noBytes = new Uint8Array(0);
const lz4 = 0;
/** What zlib takes as the size of a buffer. */
const zlibChunkBytes = { least: 64, most: 2 ** 31 };

const clamp = (value: number, { least, most }: { readonly least: number; readonly most: number }): number =>
  Math.min(Math.max(value, least), most);

function decodeZstd(input: Uint8Array, size: number): Uint8Array {
  const bytes = inflateZstd(input, size);
  if (bytes.length !== size)
    throw invalidInput(`malformed ZSTD data: ${bytes.length} bytes where ${size} are declared`);
  return bytes;
}

/** Into one buffer: zlib would collect small ones and join them, which takes the memory twice. */
function inflateZstd(input: Uint8Array, size: number): Uint8Array {
  try {
    return zstdDecompressSync(input, { maxOutputLength: size, chunkSize: clamp(size, zlibChunkBytes) });
  } catch (error) {
    throw invalidInput('malformed ZSTD data, or more of it than declared', error);
  }
}

/** Typed arrays over `bytes` need its start to be a multiple of eight. */
const aligned = (bytes: Uint8Array): Uint8Array => (bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes));

/** For batches that `checkBatch` has passed: positions are in bounds and declared sizes within the budget. */
export class BatchBuffers {
  readonly #batch: FlatTable;
  readonly #nodes: FlatVector;
  readonly #buffers: FlatVector;
  readonly #body: Buffer;
  readonly #codec: number | undefined;

  constructor(batch: FlatTable, body: Buffer) {
    this.#batch = batch;
    this.#nodes = batch.vector(1, 16);
    this.#buffers = batch.vector(2, 16);
    this.#body = body;
    this.#codec = batch.table(3)?.uint8(0, lz4);
  }

  get rows(): number {
    return this.#batch.length(0, 'the number of rows');
  }

  node(index: number): BatchNode {
    const at = this.#nodes.at + 16 * index;
    return { length: this.#int64(at), nulls: this.#int64(at + 8) };
  }

  /** The buffer's bytes, decompressed, starting at a multiple of eight. */
  buffer(index: number): Uint8Array {
    const at = this.#buffers.at + 16 * index;
    const offset = this.#int64(at);
    const bytes = this.#body.subarray(offset, offset + this.#int64(at + 8));
    if (this.#codec === undefined || bytes.length === 0) return aligned(bytes);
    const size = Number(bytes.readBigInt64LE(0));
    const content = bytes.subarray(8);
    if (size === -1) return aligned(content);
    if (size === 0) return noBytes;
    return aligned(this.#codec === lz4 ? decodeLz4Frame(content, size) : decodeZstd(content, size));
  }

  #int64(at: number): number {
    return Number(this.#batch.bytes.readBigInt64LE(at));
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
