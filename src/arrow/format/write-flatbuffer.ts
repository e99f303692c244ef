/** What the messages and footers that this service writes have in common. The numbers of fields are those of Arrow's `.fbs` files. */
import type { Builder } from 'flatbuffers';
import { continuation, messageNumber, metadataV5, prefixBytes } from './message.ts';

/**
 * Adds the bytes of a flatbuffer as they are, so that a table in them can be pointed at: flatbuffers are position-independent.
 * Answers what `addOffset` takes for the first byte; for a later one subtract its position.
 */
export function addCopy(builder: Builder, bytes: Buffer): number {
  builder.prep(8, bytes.length);
  return builder.createByteVector(bytes) - Uint32Array.BYTES_PER_ELEMENT;
}

/** A message with its prefix, a multiple of eight bytes, around the table of its header. */
export function finishMessage(
  builder: Builder,
  kind: keyof typeof messageNumber,
  header: number,
  bodyLength: number,
): Buffer {
  builder.startObject(4);
  builder.addFieldInt64(3, BigInt(bodyLength), 0n);
  builder.addFieldOffset(2, header, 0);
  builder.addFieldInt16(0, metadataV5, 0);
  builder.addFieldInt8(1, messageNumber[kind], 0);
  builder.finish(builder.endObject());
  const metadata = builder.asUint8Array();
  const message = Buffer.alloc(prefixBytes + Math.ceil(metadata.length / 8) * 8);
  message.writeInt32LE(continuation, 0);
  message.writeInt32LE(message.length - prefixBytes, 4);
  message.set(metadata, prefixBytes);
  return message;
}
