import type { IpcChunk } from '../arrow/schema/ipc-chunk.ts';
import type { Dataset, Engine } from '../engine/port/engine.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Location, Properties } from '../kernel/ids.ts';

/**
 * Writes chunks into a new dataset at a location that nobody reads yet. While one chunk is being written the next one is
 * read, so memory is two chunks plus the engine's copy, whatever the size of the whole (P7).
 *
 * The engine can report success for half of a body (docs/engine-facts.md, "Crashes and lies"), so the rows stored are counted
 * against the rows sent after every chunk. The whole is on disk when the promise resolves (P3). On any failure the files written so far stay: the caller removes the location.
 */
export async function writeDataset(
  engine: Engine,
  location: Location,
  chunks: AsyncIterable<IpcChunk>,
  storageOptions: Properties,
  signal: AbortSignal,
  onChunk: () => void,
): Promise<{ readonly version: number; readonly rows: number }> {
  let dataset: Dataset | undefined;
  let rows = 0;
  try {
    for await (const chunk of readAhead(chunks)) {
      signal.throwIfAborted();
      if (dataset === undefined) dataset = await engine.create(location, chunk.file, storageOptions);
      else if (chunk.rows > 0) await dataset.append(chunk.file);
      rows += chunk.rows;
      chunk.release();
      onChunk();
      await expectRows(dataset, rows);
    }
    if (dataset === undefined) throw new LancegateError('Internal', 'a source without chunks');
    await dataset.sync();
    return { version: await dataset.version(), rows };
  } finally {
    dataset?.close();
  }
}

async function expectRows(dataset: Dataset, sent: number): Promise<void> {
  const stored = await dataset.countRows();
  if (stored === sent) return;
  throw new LancegateError(
    'InvalidInput',
    'the data of a record batch cannot be read: the engine stored a part of it',
    {
      internal: { sentRows: sent, storedRows: stored },
    },
  );
}

/** Asks for the next item before the current one is used up. */
async function* readAhead<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item> {
  const iterator = items[Symbol.asyncIterator]();
  let next = iterator.next();
  try {
    for (;;) {
      const { done, value } = await next;
      if (done === true) return;
      next = iterator.next();
      // A failure while the consumer is busy is reported when it comes back, not as an unhandled rejection.
      next.catch(() => undefined);
      yield value;
    }
  } finally {
    await iterator.return?.();
  }
}
