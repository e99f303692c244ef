/** Rows of a file come as the messages of an Arrow IPC stream: the schema first, then batches, each behind the dictionaries it needs. */
import { asBuffer, type Block, endMarker } from '../arrow/format/ipc-file.ts';
import { prefixBytes, readMessage } from '../arrow/format/message.ts';
import { readSchemaTable } from '../arrow/schema/read-schema.ts';
import type { Schema as TableSchema } from '../arrow/schema/schema.ts';
import type { RowConversion } from '../rows/bodies/row-conversion.ts';

export interface RowMessage {
  /** They are gone once the next message is asked for. */
  readonly bytes: Uint8Array;
  readonly kind: 'schema' | 'dictionary batch' | 'record batch';
  /** A record batch has so many. */
  readonly rows: number;
  /** The share of the file that was read with the message; undefined where the bytes that were read tell it. */
  readonly readShare?: number;
}

/** Says where the message lies in its own bytes. */
export function blockOf(message: Buffer): Block {
  const metaLength = prefixBytes + message.readUInt32LE(4);
  return { offset: 0, metaLength, bodyLength: message.length - metaLength };
}

export const schemaOfMessage = (message: Uint8Array): TableSchema =>
  readSchemaTable(readMessage(asBuffer(message).subarray(prefixBytes)).header);

export const streamOf = (messages: readonly Uint8Array[]): Buffer => Buffer.concat([...messages, endMarker]);

/** The same pieces give the same messages. */
export async function* messagesOfText(
  pieces: AsyncIterable<Uint8Array>,
  conversion: RowConversion,
): AsyncGenerator<RowMessage> {
  for await (const piece of pieces) for await (const bytes of conversion.add(piece)) yield messageOf(bytes);
  for await (const bytes of conversion.end()) if (!endMarker.equals(bytes)) yield messageOf(bytes);
}

function messageOf(bytes: Uint8Array): RowMessage {
  const buffer = asBuffer(bytes);
  const metadataBytes = buffer.readUInt32LE(4);
  const { kind, header } = readMessage(buffer.subarray(prefixBytes, prefixBytes + metadataBytes));
  return { bytes, kind, rows: kind === 'record batch' ? header.length(0, 'the number of rows') : 0 };
}

export function messagesIn(stream: Uint8Array): readonly RowMessage[] {
  const bytes = asBuffer(stream);
  const messages: RowMessage[] = [];
  for (let at = 0; at + prefixBytes <= bytes.length; ) {
    const metadataBytes = bytes.readUInt32LE(at + 4);
    if (metadataBytes === 0) break;
    const { bodyLength } = readMessage(bytes.subarray(at + prefixBytes, at + prefixBytes + metadataBytes));
    const end = at + prefixBytes + metadataBytes + bodyLength;
    messages.push(messageOf(bytes.subarray(at, end)));
    at = end;
  }
  return messages;
}
