/** The thread of `parquet-file.ts`: a row group at a time, the next batch of it whenever it is asked for one. */
import { openAsBlob } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { ParquetFile } from 'parquet-wasm/node';
import type { FromParquet } from './parquet-file.ts';

/** As many as of other files. */
const rowsOfBatch = 16_384;

let place = 'its footer';

async function* batchesOf(path: string): AsyncGenerator<FromParquet> {
  const file = await ParquetFile.fromFile(await openAsBlob(path));
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
  parentPort!.postMessage(next.done ? { isEnd: true } : next.value);
}

const faultOf = (error: unknown): FromParquet => ({
  fault: `${place} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
});

parentPort!.on('message', () => void answer());
