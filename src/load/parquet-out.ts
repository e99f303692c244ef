/** Writes an Arrow IPC stream as a Parquet file, while it comes. */
import type { RecordBatch } from 'parquet-wasm/node';
import { prefixBytes } from '../arrow/format/message.ts';
import { messageBehind, PieceReader } from './message-pieces.ts';
import { streamOf } from './row-messages.ts';

export async function* parquetOf(arrow: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const { Compression, Table, transformParquetStream, WriterPropertiesBuilder } = await import('parquet-wasm/node');
  const properties = new WriterPropertiesBuilder()
    .setCompression(Compression.ZSTD)
    // A reader holds a row group, and so does the writer.
    .setMaxRowGroupSize(131_072)
    .build();
  const batches = batchesOf(arrow, (stream) => Table.fromIPCStream(stream).recordBatches());
  const bytes = await transformParquetStream(ReadableStream.from(batches), properties);
  yield* bytes as AsyncIterable<Uint8Array>;
}

/** Each batch is decoded as a stream of its own, behind the dictionaries that it needs. */
async function* batchesOf(
  arrow: AsyncIterable<Uint8Array>,
  decode: (stream: Uint8Array) => readonly RecordBatch[],
): AsyncGenerator<RecordBatch> {
  let schema: readonly Buffer[] = [];
  const dictionaries = new Map<bigint, readonly Buffer[]>();
  const pieces = new PieceReader(arrow, 'the rows broke off');
  for (;;) {
    const prefix = await pieces.takeAll(prefixBytes);
    const message = await messageBehind(prefix, pieces);
    if (message === undefined) return;
    const { kind, header, metadata, body } = message;
    const bytes = Buffer.concat([prefix, metadata, body]);
    if (kind === 'schema') schema = [bytes];
    else if (kind === 'record batch') yield* decode(streamOf([...schema, ...[...dictionaries.values()].flat(), bytes]));
    else {
      const [id, isDelta] = [header.int64(0), header.uint8(2) === 1];
      dictionaries.set(id, isDelta ? [...(dictionaries.get(id) ?? []), bytes] : [bytes]);
    }
  }
}
