import type { IpcChunk } from '../arrow/schema/schema.ts';
import type {
  Creation,
  CreationCatalog,
  KeyedAnswer,
  Publication,
  TableCatalog,
  TableRecord,
  TransactionCatalog,
  Unfinished,
} from '../catalog/port.ts';
import type { ClonedVersion, Datasets, Locations, StagedTable } from '../engine/port/engine.ts';
import { isRefusal } from '../engine/port/refusal.ts';
import { type Clock, type NewId, newTransactionId } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type Location, type Properties, showTable, type TableRef, type TransactionId } from '../kernel/ids.ts';
import { requireRowEnds } from '../table/row-ends.ts';
import type { TableOwners } from '../table/table-owners.ts';
import type { Trash } from '../table/trash.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { newLocation } from './table-location.ts';

interface NewTableRequest {
  readonly table: TableRef;
  /** This table is materialised or replaced, as it was found; undefined without one. */
  readonly existing: TableRecord | undefined;
  readonly properties: Properties | undefined;
  readonly storageOptions: Properties;
}

interface CreationDeps {
  readonly catalog: CreationCatalog & Pick<TableCatalog, 'locationsAt'> & Pick<TransactionCatalog, 'reserveRoom'>;
  readonly engine: Locations & Datasets;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly metrics: Metrics;
  readonly trash: Trash;
  /** Without it every name is this process's own. */
  readonly owners?: Pick<TableOwners, 'hold' | 'confirm'>;
}

/**
 * Makes tables: `begin` reserves the name in the catalog, and `TableCreation` writes the rows and publishes them. Before that
 * nothing is visible and everything can be undone; if this process dies, the reservation is still in the catalog and `sweep`
 * undoes it at the next start (P1). A failed create that cannot be undone, such as on a full disk, keeps its reservation, too;
 * the next create tries again.
 */
export class TableMaker {
  readonly #deps: CreationDeps & { readonly logger: Logger };
  /** These creates failed and could not be undone either, and their files may stay: until they are, their names are taken. */
  readonly #notUndone = new Map<Creation, boolean>();
  /** These creates of this process are under way. */
  readonly #underWay = new Set<Creation>();

  constructor(deps: CreationDeps & { readonly logger: Logger }) {
    this.#deps = deps;
  }

  /** `ConcurrentCreate`, `NamespaceNotFound`. What is not published when it is disposed of is undone. */
  async begin(request: NewTableRequest): Promise<TableCreation> {
    await this.#undoAgain();
    const { table, existing } = request;
    await this.#deps.owners?.hold(table);
    const location = await this.#locationOf(table, existing);
    const reservation = await this.#deps.catalog.reserveCreation(table, existing?.id, location);
    this.#underWay.add(reservation);
    const ended = async (isPublished: boolean, leavesFiles: boolean): Promise<void> => {
      if (!isPublished) await this.#undo(reservation, leavesFiles);
      this.#underWay.delete(reservation);
    };
    return new TableCreation(this.#deps, { ...request, reservation }, ended);
  }

  /** Begins a table that its first rows make: it keeps the properties that it was declared with. */
  beginDeclared(declared: TableRecord): Promise<TableCreation> {
    const { ref: table, storageOptions } = declared;
    return this.begin({ table, existing: declared, properties: undefined, storageOptions });
  }

  /**
   * Goes up to the first that fails again. Each is taken out of the list first: of two creates at once, one undoes it, and
   * neither removes what was made at its location since.
   */
  async #undoAgain(): Promise<void> {
    for (const [creation, leavesFiles] of [...this.#notUndone]) {
      if (this.#notUndone.delete(creation)) await this.#undo(creation, leavesFiles);
      if (this.#notUndone.has(creation)) return;
    }
  }

  /** A declared table is made where it was declared: its answer gave clients that location. */
  async #locationOf(table: TableRef, existing: TableRecord | undefined): Promise<Location> {
    if (existing?.state === 'declared') return this.#declaredLocation(existing);
    return newLocation(table, this.#deps.catalog, this.#deps.engine, this.#deps.newId);
  }

  /**
   * Some clients write to a declared location by themselves (LanceDB's `connectNamespace`, Spark). Those files belong to
   * them: a create would fail on them, and undoing that create would remove them. So the location is checked before the
   * reservation, which `sweep` would undo as well. `reserveCreation` refuses a location that another create is filling.
   */
  async #declaredLocation({ ref, location }: TableRecord): Promise<Location> {
    if ((await this.#deps.engine.isVacant(location)) || (await this.#isBeingFilled(location))) return location;
    throw new LancegateError(
      'InvalidTableState',
      `table '${showTable(ref)}' is only declared, but a writer outside this service has stored something at its location; ` +
        'deregister the table and register that location to adopt it, or drop the table',
    );
  }

  async #isBeingFilled(location: Location): Promise<boolean> {
    const { creations } = await this.#deps.catalog.unfinished();
    return creations.some((creation) => creation.location === location);
  }

  /**
   * Files first: without the reservation the location belongs to the declared table again, so it must be empty by then. If the
   * files cannot be removed the reservation stands until the next create or the next start tries again. Files that another
   * program wrote stay, and so do those of a create that was published although the catalog failed to say so: it has no
   * reservation any more. The reservation counts, and not the location: another replica may have undone this create, and fill the
   * same declared location now.
   */
  async #undo(creation: Creation, leavesFiles: boolean): Promise<void> {
    try {
      if (!(await this.#deps.catalog.isReserved(creation))) {
        if (!leavesFiles) await this.#removeAbandoned(creation);
        return;
      }
      if (!leavesFiles) await this.#deps.engine.remove(creation.location, this.#confirms(creation.ref));
      await this.#deps.catalog.abandonCreation(creation);
      await this.#deps.catalog.forgetDiscarded(creation.location);
    } catch (error) {
      this.#notUndone.set(creation, leavesFiles);
      this.#deps.logger.error(
        { table: creation.ref, error },
        'a failed create could not be undone; the next one tries again',
      );
    }
  }

  /** Another replica took over the name while this process wrote, and has undone the create: what came since is left. */
  async #removeAbandoned({ location }: Creation): Promise<void> {
    const known = await this.#deps.catalog.locationsAt(location, 'exact');
    const isLeft = known.some((each) => each.location === location && each.state === 'left');
    if (isLeft) await this.#deps.engine.remove(location);
  }

  /** Whether a create of this name is under way in this process. */
  isMaking(table: TableRef): boolean {
    const name = showTable(table);
    return [...this.#underWay].some(({ ref }) => showTable(ref) === name);
  }

  /** What is not undone or removed of this name. */
  left(table: TableRef): Promise<Unfinished> {
    return this.#deps.catalog.unfinished(table);
  }

  /**
   * Undoes creates that the end of their process interrupted, and removes files that the catalog has given up: of this name, or of
   * all at the start.
   */
  async sweep(table?: TableRef): Promise<void> {
    await this.#deps.trash.sweep(table);
    const { creations } = await this.#deps.catalog.unfinished(table);
    const own = new Set([...this.#underWay].map(({ id }) => id));
    for (const creation of creations.filter(({ id }) => !own.has(id))) {
      this.#deps.logger.warn(
        { table: creation.ref, location: creation.location },
        'undoing a create that was interrupted',
      );
      await this.#undo(creation, false);
    }
    const { discarded } = await this.#deps.catalog.unfinished(table);
    for (const location of discarded) await this.#removeFiles(location, table);
  }

  /**
   * Removes the files of a location that the catalog has given up; one that is left, or has a table again, keeps them. What fails
   * stays in the catalog's list, and the next start or owner tries again.
   */
  async discard({ ref, location }: Pick<TableRecord, 'ref' | 'location'>): Promise<void> {
    const { discarded } = await this.#deps.catalog.unfinished();
    if (discarded.includes(location)) await this.#removeFiles(location, ref);
  }

  async #removeFiles(location: Location, table: TableRef | undefined): Promise<void> {
    try {
      await this.#deps.engine.remove(location, this.#confirms(table));
      await this.#deps.catalog.forgetDiscarded(location);
    } catch (error) {
      this.#deps.logger.warn({ location, error }, 'files could not be removed; the next start or owner tries again');
    }
  }

  /**
   * The next owner of the name may have removed the files, and a table may be at the location again: one that was declared there,
   * or that a client has registered.
   */
  #confirms(table: TableRef | undefined): (() => Promise<void>) | undefined {
    const { owners } = this.#deps;
    return owners && table && (async () => owners.confirm(table));
  }
}

export interface WrittenTable {
  /** What the table will be. */
  readonly record: Omit<TableRecord, 'id'>;
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly rows: number;
}

/** What is recorded in the transaction that publishes. */
interface PublishedFacts extends Pick<Publication['transaction'], 'operation' | 'outcome'> {
  /** A request with an `Idempotency-Key` has one. */
  readonly answer: KeyedAnswer | undefined;
}

/**
 * The name of the table is reserved: its rows are written to a location that no reader knows, and published in one catalog
 * transaction.
 */
export class TableCreation implements AsyncDisposable {
  readonly #deps: CreationDeps;
  readonly #request: NewTableRequest & { readonly reservation: Creation };
  readonly #ended: (isPublished: boolean, leavesFiles: boolean) => Promise<void>;
  #isPublished = false;
  /** Another program has stored a table there. */
  #isTaken = false;

  constructor(
    deps: CreationDeps,
    request: NewTableRequest & { readonly reservation: Creation },
    ended: (isPublished: boolean, leavesFiles: boolean) => Promise<void>,
  ) {
    this.#deps = deps;
    this.#request = request;
    this.#ended = ended;
  }

  /** Version 1 with all rows is durable when this resolves (P3). Throws what reading the chunks and writing them throws. */
  async write(chunks: Iterable<IpcChunk> | AsyncIterable<IpcChunk>, signal: AbortSignal): Promise<WrittenTable> {
    const { engine, metrics, newId } = this.#deps;
    const { storageOptions, reservation } = this.#request;
    const table = await engine.newTable(reservation.location, storageOptions);
    try {
      const record = this.#record;
      const fitting = each(chunks, ({ schema }) => requireRowEnds(record.properties, schema));
      const rows = await writeChunks(table, fitting, signal, metrics);
      const version = await table.commit();
      return { record, transactionId: newTransactionId(newId), version, rows };
    } catch (error) {
      this.#isTaken = isRefusal(error, 'location taken');
      throw error;
    } finally {
      table.discard();
    }
  }

  /** It takes the place of `write`: the table gets all that another one has at a version. */
  async clone(from: ClonedVersion): Promise<WrittenTable> {
    const { engine, newId } = this.#deps;
    const { location } = this.#request.reservation;
    const { version } = from;
    await engine.clone(from, location);
    const dataset = await engine.open({ location });
    try {
      requireRowEnds(this.#record.properties, await dataset.schema());
      const rows = await dataset.countRows();
      return { record: this.#record, transactionId: newTransactionId(newId), version, rows };
    } finally {
      dataset.close();
    }
  }

  /** A table that it replaces goes to the trash, or is the caller's to discard. */
  async publish({ record, transactionId, version }: WrittenTable, facts: PublishedFacts): Promise<void> {
    const { catalog, clock, metrics, trash } = this.#deps;
    const { operation, outcome, answer } = facts;
    const { properties, storageOptions } = record;
    const committedAtMs = clock.nowMs();
    const transaction = { id: transactionId, operation, branch: undefined, version, outcome, committedAtMs };
    using _room = catalog.reserveRoom(1, 1);
    const replaced = trash.keeps();
    const publication = { properties, storageOptions, transaction, answer, replaced };
    await catalog.publishCreation(this.#request.reservation, publication);
    this.#isPublished = true;
    const { existing } = this.#request;
    if (existing?.state === 'created' && replaced !== undefined) await trash.putAside(existing);
    metrics.createFinished();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ended(this.#isPublished, this.#isTaken);
  }

  /** A declared table keeps the properties that it was declared with, unless the request brings others. */
  get #record(): WrittenTable['record'] {
    const { table: ref, existing, properties, storageOptions, reservation } = this.#request;
    const inherited = existing?.state === 'declared' ? existing.properties : {};
    const { location } = reservation;
    return { ref, location, state: 'created', properties: properties ?? inherited, storageOptions };
  }
}

/**
 * Appends chunks to a table that is not published yet, or to a source in staging, and returns the number of rows. While one chunk
 * is being written the next one is read, so memory is two chunks plus the engine's copy, whatever the size of the whole (P7).
 *
 * The engine can report success for half of a body (docs/engine-facts.md, "Crashes and lies"), so the rows stored are counted
 * against the rows sent after every chunk.
 */
export async function writeChunks(
  table: Pick<StagedTable, 'append' | 'countRows'>,
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

async function expectRows(table: Pick<StagedTable, 'countRows'>, sent: number): Promise<void> {
  const stored = await table.countRows();
  if (stored === sent) return;
  throw new LancegateError(
    'InvalidInput',
    'the data of a record batch cannot be read: the engine stored a part of it',
    { internal: { sentRows: sent, storedRows: stored } },
  );
}

async function* each<Item>(
  items: Iterable<Item> | AsyncIterable<Item>,
  look: (item: Item) => void,
): AsyncGenerator<Item> {
  for await (const item of items) {
    look(item);
    yield item;
  }
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
