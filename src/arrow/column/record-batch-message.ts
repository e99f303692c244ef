/**
 * Writing the metadata of an uncompressed record batch. It is a flatbuffer of one shape, of which only the counts of nodes
 * and buffers vary, so every table has a fixed place. Positions are in bytes from the end of the prefix; int64 fields and
 * the elements of vectors must stand at multiples of eight. Field numbers are those of Message.fbs.
 */

import { continuation, prefixBytes } from '../format/message.ts';
import type { BatchNode } from './batch-buffers.ts';

export interface BufferPlace {
  /** From the start of the body, in bytes. */
  readonly offset: number;
  readonly length: number;
}

export interface BatchShape {
  readonly nodes: readonly BatchNode[];
  readonly buffers: readonly BufferPlace[];
  readonly bodyLength: number;
}

/** `Message`: behind its vtable, with the offset of the header at 4, the body's length at 8, version and kind at 16. */
const messageVtableAt = 4;
const messageAt = 16;
const messageVtable = [12, 20, 16, 18, 4, 8];
/** `RecordBatch`: rows at 8, and the offsets of nodes and buffers at 4 and 16; no compression. */
const batchVtableAt = 36;
const batchAt = 48;
const batchVtable = [10, 20, 8, 4, 16];
/** A vector is its count and its elements. */
const nodesAt = 68;
const bytesOfElement = 16;
const metadataV5 = 4;
const recordBatchKind = 3;

/** Behind the nodes, four bytes of padding. */
const buffersAt = (nodes: number): number => nodesAt + 4 + bytesOfElement * nodes + 4;

/** What `writeRecordBatchMessage` writes, its prefix included: a multiple of eight. */
export const recordBatchMessageBytes = (nodes: number, buffers: number): number =>
  prefixBytes + buffersAt(nodes) + 4 + bytesOfElement * buffers;

/** `target` has exactly the size of the message and holds zeros. */
export function writeRecordBatchMessage(target: Buffer, rows: number, batch: BatchShape): void {
  target.writeInt32LE(continuation, 0);
  target.writeInt32LE(target.length - prefixBytes, 4);
  const metadata = target.subarray(prefixBytes);
  metadata.writeUInt32LE(messageAt, 0);
  writeMessageTable(metadata, batch.bodyLength);
  writeBatchTable(metadata, rows, buffersAt(batch.nodes.length));
  const nodes = batch.nodes.map(({ length, nulls }) => [length, nulls] as const);
  writePairs(metadata, nodesAt, nodes);
  const buffers = batch.buffers.map(({ offset, length }) => [offset, length] as const);
  writePairs(metadata, buffersAt(nodes.length), buffers);
}

function writeMessageTable(metadata: Buffer, bodyLength: number): void {
  writeVtable(metadata, messageVtableAt, messageVtable);
  metadata.writeInt32LE(messageAt - messageVtableAt, messageAt);
  metadata.writeUInt32LE(batchAt - (messageAt + 4), messageAt + 4);
  writeInt64(metadata, bodyLength, messageAt + 8);
  metadata.writeInt16LE(metadataV5, messageAt + 16);
  metadata.writeUInt8(recordBatchKind, messageAt + 18);
}

function writeBatchTable(metadata: Buffer, rows: number, buffers: number): void {
  writeVtable(metadata, batchVtableAt, batchVtable);
  metadata.writeInt32LE(batchAt - batchVtableAt, batchAt);
  metadata.writeUInt32LE(nodesAt - (batchAt + 4), batchAt + 4);
  writeInt64(metadata, rows, batchAt + 8);
  metadata.writeUInt32LE(buffers - (batchAt + 16), batchAt + 16);
}

/** Its own size, its table's size, and where in the table each field is. */
function writeVtable(metadata: Buffer, at: number, words: readonly number[]): void {
  for (const [i, word] of words.entries()) metadata.writeUInt16LE(word, at + 2 * i);
}

function writePairs(metadata: Buffer, at: number, pairs: readonly (readonly [number, number])[]): void {
  metadata.writeUInt32LE(pairs.length, at);
  for (const [i, [first, second]] of pairs.entries()) {
    writeInt64(metadata, first, at + 4 + bytesOfElement * i);
    writeInt64(metadata, second, at + 12 + bytesOfElement * i);
  }
}

const writeInt64 = (metadata: Buffer, value: number, at: number): number => metadata.writeBigInt64LE(BigInt(value), at);
