/**
 * Visits all tables once a day, since the history of a table that nobody writes to grows old, too. Between the visits it checks the free
 * space on the disk of the tables. When that is nearly full it removes old versions of all tables, which needs no space, and then
 * purges the oldest tables of the trash until there is space again. Maintenance would not do that: it watches branches by their
 * commits, and on a full disk no commit succeeds; a service that has just started has seen none.
 *
 * A check costs one `statfs` while there is space. While there is none, each check visits all tables, because more versions
 * pass their retention; afterwards the watch pauses for ten times as long as the visit took.
 */
import type { TableCatalog } from '../catalog/port.ts';
import type { Locations } from '../engine/port/engine.ts';
import { type Clock, dayMs } from '../kernel/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { isNearlyFull } from './disk-space.ts';
import type { BranchRef } from './report.ts';

interface SpaceWatchParts {
  readonly engine: Pick<Locations, 'space'>;
  readonly catalog: Pick<TableCatalog, 'listTables'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Removes old versions of main and all branches. Never rejects. */
  readonly pruneTable: (main: BranchRef, reason: 'little room' | 'old versions') => Promise<void>;
  /** Removes the table that has been in the trash for the longest; false where none is left. */
  readonly purgeOldest: () => Promise<boolean>;
}

const tablesPerPage = 256;
/** A start has enough to do, and one that starts every hour has a table to look at before. */
const firstVisitMs = 600_000;

export class SpaceWatch {
  readonly #parts: SpaceWatchParts;
  #cancel: (() => void) | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isStopped = false;
  #wasNearlyFull = false;
  #nextVisitMs: number;

  constructor(parts: SpaceWatchParts) {
    this.#parts = parts;
    this.#nextVisitMs = parts.clock.nowMs() + firstVisitMs;
  }

  start(): void {
    this.#lookAfter(0);
  }

  /** Resolves when the prune of the current table has ended. */
  async close(): Promise<void> {
    this.#isStopped = true;
    this.#cancel?.();
    await this.#looking;
  }

  #lookAfter(afterMs: number): void {
    if (this.#isStopped) return;
    this.#cancel = this.#parts.clock.schedule(afterMs, () => {
      this.#looking = this.#look();
    });
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const startMs = performance.now();
    try {
      if (await this.#isNearlyFull()) await this.#pruneAll('little room');
      else if (this.#parts.clock.nowMs() >= this.#nextVisitMs) {
        this.#nextVisitMs = this.#parts.clock.nowMs() + dayMs;
        await this.#pruneAll('old versions');
      }
      while (
        !this.#isStopped &&
        this.#wasNearlyFull &&
        (await this.#isNearlyFull()) &&
        (await this.#parts.purgeOldest())
      );
    } catch (error) {
      this.#parts.logger.warn(
        { error },
        'the free space on the disk of the tables could not be read, or the trash not be emptied',
      );
    }
    this.#lookAfter(Math.max(10_000, 10 * (performance.now() - startMs)));
  }

  async #isNearlyFull(): Promise<boolean> {
    const space = await this.#parts.engine.space();
    const isFull = space !== undefined && isNearlyFull(space);
    if (isFull && !this.#wasNearlyFull) {
      this.#parts.logger.warn(
        { ...space },
        'the disk of the tables is nearly full; removing old versions of all tables',
      );
    } else if (!isFull && this.#wasNearlyFull) {
      this.#parts.logger.info({ ...space }, 'the disk of the tables has free space again');
    }
    this.#wasNearlyFull = isFull;
    return isFull;
  }

  async #pruneAll(reason: 'little room' | 'old versions'): Promise<void> {
    let after: string | undefined;
    do {
      const page = { after, limit: tablesPerPage, includeDeclared: false, includeBelow: true };
      const tables = await this.#parts.catalog.listTables([], page);
      for (const { id: tableId, ref, location } of tables) {
        if (this.#isStopped) return;
        await this.#parts.pruneTable({ table: ref, tableId, branch: undefined, location }, reason);
      }
      after = tables.length < tablesPerPage ? undefined : tables.at(-1)?.cursor;
    } while (after !== undefined);
  }
}
