import type { IpcChunk } from '../arrow/schema/ipc-chunk.ts';
import type { Catalog, Creation, Publication, TableRecord } from '../catalog/port.ts';
import { type Engine, isRefusal } from '../engine/port/engine.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type Location, type Properties, showTable, type TableRef, type TransactionId } from '../kernel/ids.ts';
import { type Keyed, keyedAnswer } from '../operations/idempotency/keyed-request.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { newLocation } from './locations.ts';
import { writeDataset } from './write-chunks.ts';

export interface MakeRequest {
  readonly table: TableRef;
  /** The table to be materialised or replaced, as it was found; undefined where none was. */
  readonly existing: TableRecord | undefined;
  readonly chunks: AsyncIterable<IpcChunk>;
  readonly properties: Properties | undefined;
  readonly storageOptions: Properties;
  readonly signal: AbortSignal;
  readonly operation: Publication['transaction']['operation'];
  readonly outcome: (rows: number) => Readonly<Record<string, string>>;
  /** Runs between the last byte written and the publication, and what it returns runs after it. */
  readonly beforePublish: () => Promise<() => void>;
  /** For a request with an `Idempotency-Key`: its answer is recorded in the transaction that publishes. */
  readonly keyed: (Pick<Keyed, 'request'> & { readonly answer: (made: Made) => object }) | undefined;
}

interface UndoOptions {
  readonly leaveFiles: boolean;
}

export interface Made {
  readonly record: TableRecord;
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly rows: number;
}

/**
 * Makes a table in three steps: reserve the name, write the data where nobody looks, publish it in one
 * catalog transaction. Before the last step nothing is visible and everything can be undone; if this process dies, the
 * reservation is still in the catalog and `sweep` undoes it at the next start (P1). So it is where a failed create cannot be
 * undone; there the next create tries again, too, since a disk that was full may have room by then.
 */
export class TableMaker {
  readonly #catalog: Catalog;
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #newId: NewId;
  readonly #logger: Logger;
  readonly #metrics: Metrics;
  /** Creates that failed and could not be undone either, such as on a full disk: until they are, their names are taken. */
  readonly #leftovers = new Map<Creation, UndoOptions>();

  constructor(parts: {
    catalog: Catalog;
    engine: Engine;
    clock: Clock;
    newId: NewId;
    logger: Logger;
    metrics: Metrics;
  }) {
    this.#catalog = parts.catalog;
    this.#engine = parts.engine;
    this.#clock = parts.clock;
    this.#newId = parts.newId;
    this.#logger = parts.logger;
    this.#metrics = parts.metrics;
  }

  /** `ConcurrentCreate`, `NamespaceNotFound`, and what reading the chunks and writing them throws. */
  async make(request: MakeRequest): Promise<Made> {
    await this.#undoLeftovers();
    const creation = await this.#reserve(request);
    try {
      const { version, rows } = await writeDataset(
        this.#engine,
        creation.location,
        request.chunks,
        request.storageOptions,
        request.signal,
        () => this.#metrics.chunkWritten(),
      );
      const done = await request.beforePublish();
      try {
        request.signal.throwIfAborted();
        return await this.#publish(creation, request, version, rows);
      } finally {
        done();
      }
    } catch (error) {
      await this.#undo(creation, { leaveFiles: isRefusal(error, 'place taken') });
      throw error;
    }
  }

  /** Removes files that the catalog has given up; what fails stays listed there and is tried again at the next start. */
  async discard(location: Location): Promise<void> {
    try {
      await this.#engine.remove(location);
      await this.#catalog.forgetDiscarded(location);
    } catch (error) {
      this.#logger.warn({ location, error }, 'files could not be removed; the next start tries again');
    }
  }

  /** At start: undoes creates that a crash interrupted and removes files that nothing points at. */
  async sweep(): Promise<void> {
    const { creations } = await this.#catalog.unfinished();
    for (const creation of creations) {
      this.#logger.warn({ table: creation.ref, location: creation.location }, 'undoing a create that was interrupted');
      await this.#undo(creation, { leaveFiles: false });
    }
    const { discarded } = await this.#catalog.unfinished();
    for (const location of discarded) await this.discard(location);
  }

  /** A declared table is made where it was declared: clients were told that place. */
  async #reserve({ table, existing }: MakeRequest): Promise<Creation> {
    const location =
      existing?.state === 'declared'
        ? await this.#declaredPlace(existing)
        : await newLocation(table, this.#catalog, this.#engine, this.#newId);
    return this.#catalog.reserveCreation(table, existing?.id, location);
  }

  /**
   * Some clients write to a place they were told by themselves (LanceDB's `connectNamespace`, Spark). What they wrote is
   * not ours: a create would fail on it, and undoing that create would remove it. Asked before the reservation, which
   * `sweep` would undo as well; a place that another create is filling is left to `reserveCreation` to refuse.
   */
  async #declaredPlace({ ref, location }: TableRecord): Promise<Location> {
    if ((await this.#engine.isVacant(location)) || (await this.#isReserved(location))) return location;
    throw new LancegateError(
      'InvalidTableState',
      `table '${showTable(ref)}' is only declared, but a writer outside this service has stored something in its place; ` +
        'deregister the table and register that location to adopt it, or drop the table',
    );
  }

  async #isReserved(location: Location): Promise<boolean> {
    const { creations } = await this.#catalog.unfinished();
    return creations.some((creation) => creation.location === location);
  }

  async #publish(creation: Creation, request: MakeRequest, version: number, rows: number): Promise<Made> {
    const transactionId = this.#newId() as TransactionId;
    const madeOf = (record: TableRecord): Made => ({ record, transactionId, version, rows });
    const record = await this.#catalog.publishCreation(creation, {
      properties: request.properties,
      storageOptions: request.storageOptions,
      transaction: {
        id: transactionId,
        operation: request.operation,
        branch: undefined,
        version,
        outcome: request.outcome(rows),
        committedAtMs: this.#clock.nowMs(),
      },
      answer: await this.#answerOf(request, madeOf),
    });
    this.#metrics.createFinished();
    return madeOf(record);
  }

  /** The body has passed by now, and what is left of it must not be waited for in the catalog's transaction. */
  async #answerOf({ keyed }: MakeRequest, madeOf: (record: TableRecord) => Made): Promise<Publication['answer']> {
    if (keyed === undefined) return undefined;
    const request = await keyed.request();
    return (record) => keyedAnswer(request, keyed.answer(madeOf(record)));
  }

  /**
   * Files first: giving up a declared table's place means leaving it to that table, so it must be empty by then. If the
   * files cannot be removed the reservation stands until the next create or the next start tries again. Files that somebody
   * else put there are left alone, and so are those of a create that was published, though the catalog failed on the way back:
   * it has no reservation any more.
   */
  async #undo(creation: Creation, options: UndoOptions): Promise<void> {
    try {
      if (!(await this.#isReserved(creation.location))) return;
      if (!options.leaveFiles) await this.#engine.remove(creation.location);
      await this.#catalog.abandonCreation(creation);
      await this.#catalog.forgetDiscarded(creation.location);
    } catch (error) {
      this.#leftovers.set(creation, options);
      this.#logger.error(
        { table: creation.ref, error },
        'a failed create could not be undone; the next one tries again',
      );
    }
  }

  /**
   * Up to the first that fails again. Each is taken out before: of two creates at once one undoes it, so that neither removes
   * what was made in its place since.
   */
  async #undoLeftovers(): Promise<void> {
    for (const [creation, options] of [...this.#leftovers]) {
      if (this.#leftovers.delete(creation)) await this.#undo(creation, options);
      if (this.#leftovers.has(creation)) return;
    }
  }
}
