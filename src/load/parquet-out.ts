/** An Arrow IPC stream as a Parquet file, while it comes. */
import type { RecordBatch } from 'parquet-wasm/node';
import { asBuffer } from '../arrow/format/ipc-file.ts';
import { type Message, prefixBytes, readMessage } from '../arrow/format/message.ts';
import { invalidInput } from '../kernel/errors.ts';
import { streamOf } from './row-messages.ts';

/** A reader holds a row group, and so does the writer. */
const rowsOfGroup = 131_072;

export async function* parquetOf(arrow: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const { Compression, Table, transformParquetStream, WriterPropertiesBuilder } = await import('parquet-wasm/node');
  const properties = new WriterPropertiesBuilder()
    .setCompression(Compression.ZSTD)
    .setMaxRowGroupSize(rowsOfGroup)
    .build();
  const batches = batchesOf(arrow, (stream) => Table.fromIPCStream(stream).recordBatches());
  const bytes = await transformParquetStream(ReadableStream.from(batches), properties);
  yield* bytes as AsyncIterable<Uint8Array>;
}

/** Each batch as a stream of its own, behind the dictionaries that it needs. */
async function* batchesOf(
  arrow: AsyncIterable<Uint8Array>,
  decode: (stream: Uint8Array) => readonly RecordBatch[],
): AsyncGenerator<RecordBatch> {
  let schema: readonly Buffer[] = [];
  const dictionaries = new Map<bigint, readonly Buffer[]>();
  for await (const { kind, header, bytes } of messagesFrom(new StreamBytes(arrow))) {
    if (kind === 'schema') schema = [bytes];
    else if (kind === 'record batch') yield* decode(streamOf([...schema, ...[...dictionaries.values()].flat(), bytes]));
    else {
      const [id, isDelta] = [header.int64(0), header.uint8(2) === 1];
      dictionaries.set(id, isDelta ? [...(dictionaries.get(id) ?? []), bytes] : [bytes]);
    }
  }
}

async function* messagesFrom(incoming: StreamBytes): AsyncGenerator<Message & { readonly bytes: Buffer }> {
  for (;;) {
    const prefix = await incoming.take(prefixBytes);
    const metadataBytes = prefix.readUInt32LE(Uint32Array.BYTES_PER_ELEMENT);
    if (metadataBytes === 0) return;
    const metadata = await incoming.take(metadataBytes);
    const message = readMessage(metadata);
    yield { ...message, bytes: Buffer.concat([prefix, metadata, await incoming.take(message.bodyLength)]) };
  }
}

/** Bytes by their number, whatever pieces they come in. */
class StreamBytes {
  readonly #pieces: AsyncIterator<Uint8Array>;
  #held: Buffer[] = [];
  #bytes = 0;

  constructor(pieces: AsyncIterable<Uint8Array>) {
    this.#pieces = pieces[Symbol.asyncIterator]();
  }

  async take(count: number): Promise<Buffer> {
    while (this.#bytes < count) {
      const { done, value } = await this.#pieces.next();
      if (done) throw invalidInput('the rows broke off');
      this.#held.push(asBuffer(value));
      this.#bytes += value.length;
    }
    const joined = Buffer.concat(this.#held);
    this.#held = [joined.subarray(count)];
    this.#bytes -= count;
    return Buffer.from(joined.subarray(0, count));
  }
}
