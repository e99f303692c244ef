/**
 * The trash: a table that is dropped, or replaced by a create, is kept for `--drop-retention` and can be brought back. Its name is free
 * at once. The catalog decides what is in it, and its files follow: they leave the folder in which other programs look for tables
 * where the storage can move them, after the drop and before the table is back. So a crash in between leaves files that the next start, or
 * the next owner of the name, moves.
 */
import type { DroppedPageRequest, DroppedTable, KeptDropped, TableRecord, TrashCatalog } from '../catalog/port.ts';
import type { Locations } from '../engine/port/engine.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Location, TableId, TableRef } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TableOwners } from './table-owners.ts';

interface TrashDeps {
  readonly catalog: TrashCatalog;
  readonly engine: Pick<Locations, 'setAside' | 'bringBack'>;
  /** Without it every name is this process's own. */
  readonly owners?: Pick<TableOwners, 'confirm'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** 0 where nothing is kept. */
  readonly dropRetentionMs: number;
}

type Files = Pick<TableRecord, 'id' | 'ref' | 'location'>;

export class Trash {
  readonly #deps: TrashDeps;

  constructor(deps: TrashDeps) {
    this.#deps = deps;
  }

  /** What becomes of a table that is dropped now; undefined where its files go at once. */
  keeps(): KeptDropped | undefined {
    const { clock, dropRetentionMs } = this.#deps;
    const droppedAtMs = clock.nowMs();
    return dropRetentionMs === 0 ? undefined : { droppedAtMs, keptUntilMs: droppedAtMs + dropRetentionMs };
  }

  /**
   * Moves the files of a table if the catalog has it in the trash. The caller holds the lock of its name, or nothing else uses that yet.
   * Never rejects: files that stay where they were are still those of the dropped table.
   */
  async putAside(files: Files): Promise<void> {
    try {
      if ((await this.find(files.ref, files.id)) !== undefined) await this.filesOf(files);
    } catch (error) {
      const fields = { location: files.location, error };
      this.#deps.logger.warn(
        fields,
        'files of a dropped table could not be moved; the next start or owner tries again',
      );
    }
  }

  /** Where the files are by then, for `purgeDropped`. */
  async filesOf({ id, ref, location }: Files): Promise<Location> {
    await this.#deps.owners?.confirm(ref);
    return this.#deps.engine.setAside(location, id);
  }

  /** Before the catalog has the table back, with `putAside` where it refuses. */
  async bringBack({ id, ref, location }: Files): Promise<void> {
    await this.#deps.owners?.confirm(ref);
    return this.#deps.engine.bringBack(location, id);
  }

  /** The table of this id, or the one that was dropped last, of this name. */
  async find(named: TableRef, id?: TableId): Promise<DroppedTable | undefined> {
    const page = { of: { named, id }, after: undefined, limit: 1 };
    return (await this.#deps.catalog.droppedTables(page))[0];
  }

  /** Those that are to be purged by now. */
  ended(): AsyncIterable<DroppedTable> {
    return this.all({ endedByMs: this.#deps.clock.nowMs() });
  }

  /** Finishes what a crash has left, of this name or of all. */
  async sweep(table?: TableRef): Promise<void> {
    const which = table === undefined ? {} : ({ of: { named: table } } as const);
    for await (const dropped of this.all(which)) await this.putAside(dropped);
  }

  async *all(which: Pick<DroppedPageRequest, 'of' | 'endedByMs'> = {}): AsyncGenerator<DroppedTable> {
    const limit = 1000;
    let after: string | undefined;
    do {
      const page = await this.#deps.catalog.droppedTables({ ...which, after, limit });
      yield* page;
      after = page.length < limit ? undefined : page.at(-1)?.cursor;
    } while (after !== undefined);
  }
}
