/**
 * Joins batches of the same rows, with some columns each, to one with all of them, byte for byte as the decoder makes it of all at once.
 */
import { Builder } from 'flatbuffers';
import { type BatchBuffers, openBatch, openDictionary } from '../../arrow/column/batch-buffers.ts';
import { addPairs, type NumberPair } from '../../arrow/column/batch-plan.ts';
import { asBuffer } from '../../arrow/format/ipc-file.ts';
import { continuation, metadataV5, prefixBytes } from '../../arrow/format/message.ts';
import { isSome, type Some } from '../../kernel/some.ts';
import { blockOf, type RowMessage } from '../row-messages.ts';

/** The decoder pads every buffer to so many bytes, and what is in front of the body. */
const padding = 64;

/** Each column gives its dictionaries and its record batch. */
export function joinedBatch(columns: readonly (readonly RowMessage[])[]): readonly RowMessage[] {
  if (columns.length === 1) return columns.flat();
  // Each has numbered its dictionaries from 0 on.
  const dictionaries = columns.flatMap((messages) => messages.filter(({ kind }) => kind === 'dictionary batch'));
  const batches = columns.flatMap((messages) => messages.slice(-1));
  return [
    ...dictionaries.map((message, id) => joined([message], id)),
    ...(isSome(batches) ? [joined(batches, undefined)] : []),
  ];
}

/** `id` is that of the dictionary that it is. */
function joined(messages: Some<RowMessage>, id: number | undefined): RowMessage {
  const nodes: NumberPair[] = [];
  const buffers: NumberPair[] = [];
  const bodies: Buffer[] = [];
  let bodyLength = 0;
  let length = 0;
  for (const message of messages) {
    const batch = batchOf(message);
    for (let i = 0; i < batch.nodeCount; i += 1) nodes.push([batch.node(i).length, batch.node(i).nulls]);
    for (let i = 0; i < batch.bufferCount; i += 1) {
      const range = batch.range(i);
      buffers.push([bodyLength + range.offset, range.length]);
    }
    bodies.push(batch.body);
    bodyLength += batch.body.length;
    length = batch.rows;
  }
  const [{ kind, rows }] = messages;
  return { kind, rows, bytes: Buffer.concat([headOf({ length, nodes, buffers, bodyLength, id }), ...bodies]) };
}

function batchOf({ bytes, kind }: RowMessage): BatchBuffers {
  const message = asBuffer(bytes);
  const block = blockOf(message);
  return kind === 'dictionary batch' ? openDictionary(message, block).values : openBatch(message, block);
}

interface HeadToWrite {
  readonly length: number;
  readonly nodes: readonly NumberPair[];
  readonly buffers: readonly NumberPair[];
  readonly bodyLength: number;
  readonly id: number | undefined;
}

/** The fields stand in the order of the decoder. */
function headOf({ length, nodes, buffers, bodyLength, id }: HeadToWrite): Buffer {
  const builder = new Builder();
  const ofBuffers = addPairs(builder, buffers);
  const ofNodes = addPairs(builder, nodes);
  builder.startObject(3);
  builder.addFieldInt64(0, BigInt(length), 0n);
  builder.addFieldOffset(1, ofNodes, 0);
  builder.addFieldOffset(2, ofBuffers, 0);
  const batch = builder.endObject();
  const header = id === undefined ? batch : addDictionary(builder, id, batch);
  builder.startObject(4);
  builder.addFieldInt16(0, metadataV5, 0);
  builder.addFieldInt8(1, id === undefined ? 3 : 2, 0);
  builder.addFieldInt64(3, BigInt(bodyLength), 0n);
  builder.addFieldOffset(2, header, 0);
  builder.finish(builder.endObject());
  const metadata = builder.asUint8Array();
  const head = Buffer.alloc(Math.ceil((prefixBytes + metadata.length) / padding) * padding);
  head.writeInt32LE(continuation, 0);
  head.writeInt32LE(head.length - prefixBytes, 4);
  head.set(metadata, prefixBytes);
  return head;
}

function addDictionary(builder: Builder, id: number, batch: number): number {
  builder.startObject(3);
  builder.addFieldInt64(0, BigInt(id), 0n);
  builder.addFieldOffset(1, batch, 0);
  return builder.endObject();
}
