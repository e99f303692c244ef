/**
 * Looks now and then whether the disk of the tables is nearly full, and then removes the old versions of all tables, by
 * `Upkeep.prune`, which needs no room. Nothing else would come to it: on a full disk no commit succeeds, so no branch is
 * watched for its commits, and a service that starts there has seen none.
 *
 * It costs one `statfs` while there is room. While there is none, all tables are gone through again and again, since versions
 * grow old; each time it rests for at least ten times as long as that took.
 */
import type { Catalog } from '../catalog/port.ts';
import type { Engine } from '../engine/port.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { BranchRef } from './job.ts';
import { isNearlyFull } from './space.ts';

export interface SpaceWatchParts {
  readonly engine: Pick<Engine, 'space'>;
  readonly catalog: Pick<Catalog, 'listAllTables'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Removes what may go of main and all branches. Never rejects. */
  readonly pruneTable: (main: BranchRef) => Promise<void>;
}

/** So that a start comes to it before long. */
const firstLookAfterMs = 1_000;
const lookEveryMs = 10_000;
const restPerWork = 10;
const tablesPerPage = 256;

export class SpaceWatch {
  readonly #parts: SpaceWatchParts;
  #cancel: (() => void) | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isStopped = false;
  #wasNearlyFull = false;

  constructor(parts: SpaceWatchParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#lookAfter(firstLookAfterMs);
  }

  /** Resolves when the table that it is at has ended. */
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
      if (await this.#isNearlyFull()) await this.#pruneAll();
    } catch (error) {
      this.#parts.logger.warn({ error }, 'the room on the disk of the tables could not be looked at');
    }
    this.#lookAfter(Math.max(lookEveryMs, restPerWork * (performance.now() - startMs)));
  }

  async #isNearlyFull(): Promise<boolean> {
    const space = await this.#parts.engine.space();
    const isFull = space !== undefined && isNearlyFull(space);
    if (isFull && !this.#wasNearlyFull) {
      this.#parts.logger.warn(
        { ...space },
        'the disk of the tables is nearly full: old versions of all tables are removed',
      );
    } else if (!isFull && this.#wasNearlyFull) {
      this.#parts.logger.info({ ...space }, 'the disk of the tables has room again');
    }
    this.#wasNearlyFull = isFull;
    return isFull;
  }

  async #pruneAll(): Promise<void> {
    let after: string | undefined;
    do {
      const page = { after, limit: tablesPerPage, includeDeclared: false };
      const tables = await this.#parts.catalog.listAllTables(page);
      for (const { id: tableId, ref, location } of tables) {
        if (this.#isStopped) return;
        await this.#parts.pruneTable({ table: ref, tableId, branch: undefined, location });
      }
      const last = tables.length < tablesPerPage ? undefined : tables.at(-1)?.ref;
      after = last && [...last.namespace, last.name].join('\u001f');
    } while (after !== undefined);
  }
}
