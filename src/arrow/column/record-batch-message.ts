import { Builder } from 'flatbuffers';
import { finishMessage } from '../format/write-flatbuffer.ts';
import type { BatchNode } from './batch-buffers.ts';

export interface BufferRange {
  /** From the start of the body, in bytes. */
  readonly offset: number;
  readonly length: number;
}

export interface BatchShape {
  readonly nodes: readonly BatchNode[];
  readonly buffers: readonly BufferRange[];
  readonly bodyLength: number;
}

/** The metadata of an uncompressed record batch, with its prefix. */
export function recordBatchMessage(rows: number, { nodes, buffers, bodyLength }: BatchShape): Buffer {
  const builder = new Builder(bytesOfPair * (nodes.length + buffers.length) + overheadBytes);
  const bufferPairs = addPairs(
    builder,
    buffers.map(({ offset, length }) => [offset, length]),
  );
  const nodePairs = addPairs(
    builder,
    nodes.map(({ length, nulls }) => [length, nulls]),
  );
  builder.startObject(3);
  builder.addFieldInt64(0, BigInt(rows), 0n);
  builder.addFieldOffset(1, nodePairs, 0);
  builder.addFieldOffset(2, bufferPairs, 0);
  return finishMessage(builder, 'batch', builder.endObject(), bodyLength);
}

const bytesOfPair = 16;
/** At least the tables: the builder then never grows. */
const overheadBytes = 128;

function addPairs(builder: Builder, pairs: readonly (readonly [number, number])[]): number {
  builder.startVector(bytesOfPair, pairs.length, 8);
  for (const [first, second] of pairs.toReversed()) {
    builder.prep(8, bytesOfPair);
    builder.writeInt64(BigInt(second));
    builder.writeInt64(BigInt(first));
  }
  return builder.endVector();
}
