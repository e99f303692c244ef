import { createHash } from 'node:crypto';
import type { Catalog, Creation, TableRecord } from '../catalog/port.ts';
import type { Engine } from '../engine/port/engine.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type Location, type NamespacePath, type ObjectName, showTable, type TableRef } from '../kernel/ids.ts';
import { type Spelling, speltAs } from '../kernel/places.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
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

/** Names that are safe as they are: in a path, in a URL of any object store, and as a table name for LanceDB. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/;
const hexDigitsOfHash = 16;

/**
 * A folder name for any object name. Other names than plain ones, and those that could be taken for a table's folder, get
 * a readable part and a hash of the whole, so two names never share a folder by accident; the catalog, not the path, says
 * which table is where.
 */
function folderName(name: ObjectName): string {
  if (plainName.test(name) && !name.toLowerCase().endsWith('.lance')) return name;
  const readable = name.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, 40);
  const hash = createHash('sha256').update(name).digest('hex').slice(0, hexDigitsOfHash);
  return `x${readable}-${hash}`;
}

/**
 * Where a new table's files go: `{namespace…}/{table}.lance` where that place was never used, else with a short id, so
 * that a recreated table never inherits old files.
 */
export async function newLocation(table: TableRef, catalog: Catalog, engine: Engine, newId: NewId): Promise<Location> {
  const folder = [...table.namespace.map(folderName), folderName(table.name)].join('/');
  const first = `${folder}.lance` as Location;
  if ((await catalog.isLocationFresh(first)) && (await engine.isVacant(first))) return first;
  return `${folder}-${newId().replaceAll('-', '').slice(0, 12)}.lance` as Location;
}

/** The folder names that `folderName` makes of other than plain names; hardly any plain name looks like that. */
const encodedName = new RegExp(`^x.*-[0-9a-f]{${hexDigitsOfHash}}$`);

/**
 * The namespace whose folder holds a location, by its text alone, whether that namespace exists or not. Undefined if a folder
 * has an encoded name; then `namespacesAround` answers. `near` is recognised by its own folder, encoded or not.
 */
export function folderNamespace(location: Location, near: NamespacePath): NamespacePath | undefined {
  const folders = foldersOf(location);
  const isNear = near.every((name, index) => folderName(name) === folders[index]);
  const known = isNear ? near : [];
  const rest = folders.slice(known.length);
  if (rest.some((folder) => encodedName.test(folder))) return undefined;
  const firstOther = rest.findIndex((folder) => folderName(folder) !== folder);
  return [...known, ...(firstOther < 0 ? rest : rest.slice(0, firstOther))];
}

/** Whether another namespace may have the same folder: one whose plain name is what another name becomes as a folder. */
export const mayBeShared = (location: Location): boolean =>
  foldersOf(location).some((folder) => encodedName.test(folder));

const foldersOf = (location: Location): readonly ObjectName[] => location.split('/').slice(0, -1) as ObjectName[];

/**
 * The existing namespaces whose folder holds a location, innermost only; the root if there is no other. Several if names share
 * a folder. Reads all namespaces.
 */
export async function namespacesAround(
  catalog: Catalog,
  location: Location,
  spelling: Spelling,
): Promise<readonly NamespacePath[]> {
  const place = speltAs(location, spelling);
  const around = (await catalog.namespacesUnder([])).filter((path) =>
    place.startsWith(path.map((name) => `${speltAs(folderName(name), spelling)}/`).join('')),
  );
  const innermost = Math.max(...around.map((path) => path.length));
  return around.filter((path) => path.length === innermost);
}
