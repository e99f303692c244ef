/** Rows of a Parquet file, a row group at a time: memory follows from the largest one, since its columns are read side by side. */
import { openAsBlob } from 'node:fs';
import { invalidInput } from '../kernel/errors.ts';
import { messagesIn, type RowMessage } from './row-messages.ts';

/** As many as of other files. */
const rowsOfBatch = 16_384;

/**
 * The decoder is compiled to a machine of its own (wasm), where a hostile file can fail and not reach the process: what it throws is
 * `InvalidInput`.
 */
export async function* messagesOfParquet(path: string): AsyncGenerator<RowMessage> {
  const { ParquetFile } = await import('parquet-wasm/node');
  let place = 'the footer of the Parquet file';
  try {
    const file = await ParquetFile.fromFile(await openAsBlob(path));
    yield messagesIn(file.schema().intoIPCStream())[0]!;
    const metadata = file.metadata();
    const groups = metadata.numRowGroups();
    const totalRows = metadata.fileMetadata().numRows();
    let rows = 0;
    for (let group = 0; group < groups; group += 1) {
      place = `row group ${group + 1} of ${groups} of the Parquet file`;
      const batches = await file.stream({ batchSize: rowsOfBatch, rowGroups: [group], concurrency: 1 });
      for await (const batch of batches) {
        rows += batch.numRows;
        yield* readUpTo(rows / totalRows, messagesIn(batch.intoIPCStream()).slice(1));
      }
    }
  } catch (error) {
    throw invalidInput(`${place} cannot be read: ${reasonOf(error)}`, error);
  }
}

const readUpTo = (readShare: number, messages: readonly RowMessage[]): readonly RowMessage[] =>
  messages.map((message) => ({ ...message, readShare }));

const reasonOf = (error: unknown): string =>
  error instanceof Error && error.name !== 'RuntimeError' ? error.message : 'it is damaged';
