import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { Catalog, Creation, KeyedAnswer, Publication, TableRecord } from '../catalog/port.ts';
import { type Engine, isRefusal, type StagedTable } from '../engine/port/engine.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { Properties, TableRef, TransactionId } from '../kernel/ids.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export interface NewTableRequest {
  readonly table: TableRef;
  /** The table that is materialised or replaced, as it was found; undefined without one. */
  readonly existing: TableRecord | undefined;
  readonly properties: Properties | undefined;
  readonly storageOptions: Properties;
}

export interface CreationDeps {
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly metrics: Metrics;
}

/** What the table will be. */
export type NewRecord = Omit<TableRecord, 'id'>;

export interface WrittenTable {
  readonly record: NewRecord;
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly rows: number;
}

/** What is recorded in the transaction that publishes. */
export interface PublishedFacts {
  readonly operation: Publication['transaction']['operation'];
  readonly outcome: Publication['transaction']['outcome'];
  /** Of a request with an `Idempotency-Key`. */
  readonly answer: KeyedAnswer | undefined;
}

/** A table whose name is reserved: its rows are written to a location that no reader knows, and published in one catalog transaction. */
export class TableCreation implements AsyncDisposable {
  readonly #deps: CreationDeps;
  readonly #request: NewTableRequest & { readonly reservation: Creation };
  readonly #undo: (leaveFiles: boolean) => Promise<void>;
  #isPublished = false;
  /** Another program has stored a table there. */
  #isTaken = false;

  constructor(
    deps: CreationDeps,
    request: NewTableRequest & { readonly reservation: Creation },
    undo: (leaveFiles: boolean) => Promise<void>,
  ) {
    this.#deps = deps;
    this.#request = request;
    this.#undo = undo;
  }

  /** Version 1 with all rows is on disk when this resolves (P3). Throws what reading the chunks and writing them throws. */
  async write(chunks: AsyncIterable<IpcChunk>, signal: AbortSignal): Promise<WrittenTable> {
    const { engine, metrics, newId } = this.#deps;
    const { storageOptions, reservation } = this.#request;
    const table = await engine.newTable(reservation.location, storageOptions);
    try {
      const rows = await writeChunks(table, chunks, signal, metrics);
      const version = await table.commit();
      return { record: this.#record, transactionId: newId() as TransactionId, version, rows };
    } catch (error) {
      this.#isTaken = isRefusal(error, 'place taken');
      throw error;
    } finally {
      table.discard();
    }
  }

  async publish({ record, transactionId, version }: WrittenTable, facts: PublishedFacts): Promise<void> {
    const { catalog, clock, metrics } = this.#deps;
    const { operation, outcome, answer } = facts;
    const { properties, storageOptions } = record;
    const committedAtMs = clock.nowMs();
    const transaction = { id: transactionId, operation, branch: undefined, version, outcome, committedAtMs };
    await catalog.publishCreation(this.#request.reservation, { properties, storageOptions, transaction, answer });
    this.#isPublished = true;
    metrics.createFinished();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isPublished) await this.#undo(this.#isTaken);
  }

  /** A declared table keeps the properties that it was declared with, unless the request brings others. */
  get #record(): NewRecord {
    const { table: ref, existing, properties, storageOptions, reservation } = this.#request;
    const inherited = existing?.state === 'declared' ? existing.properties : {};
    const { location } = reservation;
    return { ref, location, state: 'created', properties: properties ?? inherited, storageOptions };
  }
}

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
