import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { StagedTable } from '../engine/port/engine.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/**
 * Appends chunks to a table that is not published yet, and returns the number of rows. While one chunk is being written the next one
 * is read, so memory is two chunks plus the engine's copy, whatever the size of the whole (P7).
 *
 * The engine can report success for half of a body (docs/engine-facts.md, "Crashes and lies"), so the rows stored are counted
 * against the rows sent after every chunk.
 */
export async function writeChunks(
  table: StagedTable,
  chunks: AsyncIterable<IpcChunk>,
  signal: AbortSignal,
  metrics: Metrics,
): Promise<number> {
  let isFirst = true;
  let rows = 0;
  for await (const chunk of readAhead(chunks)) {
    signal.throwIfAborted();
    if (isFirst || chunk.rows > 0) await table.append(chunk.file);
    isFirst = false;
    rows += chunk.rows;
    chunk.release();
    metrics.chunkWritten();
    await expectRows(table, rows);
  }
  if (isFirst) throw new LancegateError('Internal', 'a source without chunks');
  return rows;
}

async function expectRows(table: StagedTable, sent: number): Promise<void> {
  const stored = await table.countRows();
  if (stored === sent) return;
  throw new LancegateError(
    'InvalidInput',
    'the data of a record batch cannot be read: the engine stored a part of it',
    { internal: { sentRows: sent, storedRows: stored } },
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
