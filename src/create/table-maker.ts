import type { Catalog, Creation, TableRecord } from '../catalog/port.ts';
import type { Engine } from '../engine/port/engine.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type Location, showTable, type TableRef } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { newLocation } from './locations.ts';
import { type NewTableRequest, TableCreation } from './table-creation.ts';

interface UndoOptions {
  readonly leaveFiles: boolean;
}

/**
 * Makes tables: `begin` reserves the name in the catalog, and `TableCreation` writes the rows and publishes them. Before that
 * nothing is visible and everything can be undone; if this process dies, the reservation is still in the catalog and `sweep`
 * undoes it at the next start (P1). A failed create that cannot be undone, such as on a full disk, keeps its reservation, too;
 * the next create tries again.
 */
export class TableMaker {
  readonly #catalog: Catalog;
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #newId: NewId;
  readonly #logger: Logger;
  readonly #metrics: Metrics;
  /** Creates that failed and could not be undone either: until they are, their names are taken. */
  readonly #leftovers = new Map<Creation, UndoOptions>();

  constructor(deps: {
    catalog: Catalog;
    engine: Engine;
    clock: Clock;
    newId: NewId;
    logger: Logger;
    metrics: Metrics;
  }) {
    this.#catalog = deps.catalog;
    this.#engine = deps.engine;
    this.#clock = deps.clock;
    this.#newId = deps.newId;
    this.#logger = deps.logger;
    this.#metrics = deps.metrics;
  }

  /** `ConcurrentCreate`, `NamespaceNotFound`. What is not published when it is disposed of is undone. */
  async begin(request: NewTableRequest): Promise<TableCreation> {
    await this.#undoLeftovers();
    const { table, existing } = request;
    const location = await this.#locationOf(table, existing);
    const reservation = await this.#catalog.reserveCreation(table, existing?.id, location);
    return new TableCreation(
      { catalog: this.#catalog, engine: this.#engine, clock: this.#clock, newId: this.#newId, metrics: this.#metrics },
      { ...request, reservation },
      (leaveFiles) => this.#undo(reservation, { leaveFiles }),
    );
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

  /** A declared table is made where it was declared: its answer gave clients that location. */
  async #locationOf(table: TableRef, existing: TableRecord | undefined): Promise<Location> {
    if (existing?.state === 'declared') return this.#declaredPlace(existing);
    return newLocation(table, this.#catalog, this.#engine, this.#newId);
  }

  /**
   * Some clients write to a declared location by themselves (LanceDB's `connectNamespace`, Spark). Those files belong to
   * them: a create would fail on it, and undoing that create would remove it. Asked before the reservation, which
   * `sweep` would undo as well; a location that another create is filling is left to `reserveCreation` to refuse.
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

  /**
   * Files first: giving up a declared table's place means leaving it to that table, so it must be empty by then. If the
   * files cannot be removed the reservation stands until the next create or the next start tries again. Files that another
   * program put there are left alone, and so are those of a create that was published, though the catalog failed on the way back:
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
