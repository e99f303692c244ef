/** The thread of `parquet-file.ts`: a row group at a time, the next batch of it whenever it is asked for one. */
import { fstatSync, openSync, readSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { ParquetFile } from 'parquet-wasm/node';
import type { FromParquet } from './parquet-file.ts';

/** As many as of other files. */
const rowsOfBatch = 16_384;

let place = 'its footer';

/** What the decoder asks of a blob. That of Node holds what it reads twice. */
class FileSlice {
  readonly #descriptor: number;
  readonly #start: number;
  readonly size: number;

  constructor(descriptor: number, start: number, end: number) {
    this.#descriptor = descriptor;
    this.#start = start;
    this.size = end - start;
  }

  slice(start: number, end: number): FileSlice {
    return new FileSlice(this.#descriptor, this.#start + start, this.#start + Math.min(end, this.size));
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    const bytes = new Uint8Array(this.size);
    for (let at = 0; at < bytes.length; ) {
      const read = readSync(this.#descriptor, bytes, at, bytes.length - at, this.#start + at);
      if (read === 0) throw new Error('the file got shorter while it was read');
      at += read;
    }
    return bytes.buffer;
  }
}

async function* batchesOf(path: string): AsyncGenerator<FromParquet> {
  const descriptor = openSync(path, 'r');
  const file = await ParquetFile.fromFile(new FileSlice(descriptor, 0, fstatSync(descriptor).size) as unknown as Blob);
  yield { stream: file.schema().intoIPCStream(), readShare: 0 };
  const metadata = file.metadata();
  const groups = metadata.numRowGroups();
  const totalRows = metadata.fileMetadata().numRows();
  let rows = 0;
  for (let group = 0; group < groups; group += 1) {
    place = `row group ${group + 1} of ${groups}`;
    const batches = await file.stream({ batchSize: rowsOfBatch, rowGroups: [group], concurrency: 1 });
    for await (const batch of batches) {
      rows += batch.numRows;
      yield { stream: batch.intoIPCStream(), readShare: rows / totalRows };
    }
  }
}

const batches = batchesOf(String(workerData));

async function answer(): Promise<void> {
  const next = await batches.next().catch((error: unknown) => ({ done: false, value: faultOf(error) }) as const);
  const said = next.done ? ({ isEnd: true } as const) : next.value;
  parentPort!.postMessage(said, 'stream' in said ? [said.stream.buffer as ArrayBuffer] : []);
}

const faultOf = (error: unknown): FromParquet => ({
  fault: `${place} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
});

parentPort!.on('message', () => void answer());
