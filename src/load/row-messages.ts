/** Rows of a file as the messages of an Arrow IPC stream: the schema first, then batches, each behind the dictionaries it needs. */
import { DataType, makeData, Null, RecordBatch, type Schema, Struct, Table, tableToIPC } from 'apache-arrow';
import { asBuffer, endMarker } from '../arrow/format/ipc-file.ts';
import { prefixBytes, readMessage } from '../arrow/format/message.ts';
import { readSchemaTable } from '../arrow/schema/read-schema.ts';
import type { Schema as TableSchema } from '../arrow/schema/schema.ts';
import type { RowConversion } from '../rows/bodies/row-conversion.ts';

export interface RowMessage {
  /** Gone once the next message is asked for. */
  readonly bytes: Uint8Array;
  readonly kind: 'schema' | 'dictionary batch' | 'record batch';
  /** Of a record batch. */
  readonly rows: number;
  /** Of the file, so much is behind it; undefined where the bytes that were read say so. */
  readonly readShare?: number;
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

/** A batch of a file may be the whole file. */
const rowsOfSlice = 16_384;

/** Batches of Arrow in slices, so that a request never needs to hold the largest of them. */
export async function* messagesOfArrow(
  schema: Schema,
  batches: AsyncIterable<RecordBatch> | Iterable<RecordBatch>,
): AsyncGenerator<RowMessage> {
  yield messagesIn(tableToIPC(new Table(schema), 'stream'))[0]!;
  for await (const batch of batches) {
    for (let row = 0; row < batch.numRows; row += rowsOfSlice) {
      const slice = tableToIPC(new Table([countedNulls(batch.slice(row, row + rowsOfSlice))]), 'stream');
      yield* messagesIn(slice).slice(1);
    }
  }
}

/** The library does not know how many values a slice of a column of type null has that are NULL, which are all. */
function countedNulls(slice: RecordBatch): RecordBatch {
  if (!slice.data.children.some(({ type }) => DataType.isNull(type))) return slice;
  const children = slice.data.children.map((child) =>
    DataType.isNull(child.type) ? makeData({ type: new Null(), length: child.length }) : child,
  );
  const data = makeData({ type: new Struct(slice.schema.fields), length: slice.numRows, nullCount: 0, children });
  return new RecordBatch(slice.schema, data);
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
