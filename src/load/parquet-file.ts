/**
 * Reads rows of a Parquet file. What is held of it are the pages that its next rows need, whatever the size of its row groups; of a
 * column with several leaves, such as a struct, it is all of a row group.
 */
import { closeSync, fstatSync, openSync } from 'node:fs';
import { invalidInput } from '../kernel/errors.ts';
import { freeMemory } from './free-memory.ts';
import { bandsOf } from './parquet/bands.ts';
import { ParquetFooter } from './parquet/footer.ts';
import { joinedBatch } from './parquet/joined-batch.ts';
import { messagesIn, type RowMessage } from './row-messages.ts';

/**
 * The decoder is compiled to a machine of its own (wasm), and waits for what is read: it is for a thread that may end. What is said of a
 * file is `InvalidInput`.
 */
export async function* messagesOfParquet(path: string): AsyncGenerator<RowMessage> {
  const { readParquet: decode } = await import('parquet-wasm/node');
  const file = openSync(path, 'r');
  let place = 'its footer';
  try {
    const footer = ParquetFooter.read(file, fstatSync(file).size);
    using table = decode(footer.emptyFile());
    for (const schema of messagesIn(table.schema.intoIPCStream()).slice(0, 1)) yield { ...schema, readShare: 0 };
    const totalRows = footer.groups.reduce((sum, group) => sum + group.rows, 0);
    let rows = 0;
    for (const [at, group] of footer.groups.entries()) {
      place = `row group ${at + 1} of ${footer.groups.length}`;
      for (const messages of batchesOf(bandsOf({ file, footer, decode }, group))) {
        rows += messages.at(-1)?.rows ?? 0;
        yield* messages.map((message) => ({ ...message, readShare: rows / totalRows }));
      }
    }
  } catch (error) {
    throw invalidInput(`${place} cannot be read: ${error instanceof Error ? error.message : String(error)}`, error);
  } finally {
    closeSync(file);
  }
}

type Bands = ReturnType<typeof bandsOf>;

function* batchesOf(bands: Bands): Generator<readonly RowMessage[]> {
  try {
    for (;;) {
      const batches = bands.map((band) => band.next());
      const streams = batches.flatMap(({ done, value }) => (done ? [] : [value.intoIPCStream()]));
      if (streams.length === 0) return;
      if (streams.length < bands.length) throw invalidInput('a column has fewer rows than another');
      yield joinedBatch(streams.map((stream) => messagesIn(stream).slice(1)));
      if (streams.length > 1) streams.forEach(freeMemory);
    }
  } finally {
    for (const band of bands) band.return();
  }
}
