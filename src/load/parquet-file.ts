/** Rows of a Parquet file, a row group at a time: memory follows from the largest one, since its columns are read side by side. */
import { type FileHandle, open } from 'node:fs/promises';
import { invalidInput } from '../kernel/errors.ts';
import { messagesIn, type RowMessage } from './row-messages.ts';

/** As many as of other files. */
const rowsOfBatch = 16_384;

/**
 * The decoder is compiled to a machine of its own (wasm). A hostile file can make it fail where nothing can catch that, so it is for a
 * thread that may end. What it says of a file is `InvalidInput`.
 */
export async function* messagesOfParquet(path: string): AsyncGenerator<RowMessage> {
  const { ParquetFile } = await import('parquet-wasm/node');
  await using handle = await open(path);
  let place = 'its footer';
  try {
    const { size } = await handle.stat();
    const read: ArrayBuffer[] = [];
    const file = await ParquetFile.fromFile(new FileSlice(handle, read, 0, size) as unknown as Blob);
    yield { ...messagesIn(file.schema().intoIPCStream())[0]!, readShare: 0 };
    const metadata = file.metadata();
    const groups = metadata.numRowGroups();
    const totalRows = metadata.fileMetadata().numRows();
    let rows = 0;
    for (let group = 0; group < groups; group += 1) {
      place = `row group ${group + 1} of ${groups}`;
      const batches = await file.stream({ batchSize: rowsOfBatch, rowGroups: [group], concurrency: 1 });
      for await (const batch of batches) {
        free(read.splice(0)); // the decoder has read all of the group, and has copied it
        rows += batch.numRows;
        yield* readUpTo(rows / totalRows, messagesIn(batch.intoIPCStream()).slice(1));
      }
    }
  } catch (error) {
    throw invalidInput(`${place} cannot be read: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

const readUpTo = (readShare: number, messages: readonly RowMessage[]): readonly RowMessage[] =>
  messages.map((message) => ({ ...message, readShare }));

/** V8 would keep hundreds of megabytes of them for long. */
function free(buffers: readonly ArrayBuffer[]): void {
  for (const buffer of buffers) buffer.transfer(0);
}

/** What the decoder asks of a blob. That of Node holds what it reads twice. */
class FileSlice {
  readonly #handle: FileHandle;
  readonly #read: ArrayBuffer[];
  readonly #start: number;
  readonly size: number;

  /** What was read is added to `read`, to be freed. */
  constructor(handle: FileHandle, read: ArrayBuffer[], start: number, end: number) {
    this.#handle = handle;
    this.#read = read;
    this.#start = start;
    this.size = end - start;
  }

  slice(start: number, end: number): FileSlice {
    return new FileSlice(this.#handle, this.#read, this.#start + start, this.#start + Math.min(end, this.size));
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    const bytes = new Uint8Array(this.size);
    for (let at = 0; at < bytes.length; ) {
      const { bytesRead } = await this.#handle.read(bytes, at, bytes.length - at, this.#start + at);
      if (bytesRead === 0) throw new Error('the file got shorter while it was read');
      at += bytesRead;
    }
    this.#read.push(bytes.buffer);
    return bytes.buffer;
  }
}
