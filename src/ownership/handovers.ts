import { writerMoved } from '../catalog/refusals.ts';
import type { OwnerCatalog } from '../catalog/replica-port.ts';
import { type Clock, untilPassed } from '../kernel/clock.ts';
import { showTable, type TableRef } from '../kernel/ids.ts';
import type { OwnedWork } from '../table/table-owners.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type HeldName, keyOf, type NamesHere } from './names-here.ts';
import type { MonotonicClock } from './replica-lease.ts';

interface HandoversDeps {
  readonly catalog: OwnerCatalog;
  readonly names: NamesHere;
  readonly clock: Clock;
  readonly monotonicMs: MonotonicClock;
  readonly logger: Logger;
}

/** `in any case`: the process ends, and what does not end in time is left to the next owner to look after. */
export type HandOver = 'if idle' | 'if not busy' | 'in any case';

/** Names of which a handover may be under way at once. */
export const handOversAtOnce = 16;

/** Gives names back to the catalog, for another replica to claim. */
export class Handovers {
  readonly #deps: HandoversDeps;
  /** It has the names of this replica by their keys. A name that is handed over goes. */
  readonly #held: Map<string, HeldName>;

  constructor(deps: HandoversDeps, held: Map<string, HeldName>) {
    this.#deps = deps;
    this.#held = held;
  }

  /**
   * `successor` is the replica that is to have the names. Without it, the replica that has asked for a name has it; else any may claim it.
   * Never rejects.
   */
  async handOver(names: readonly HeldName[], how: HandOver, work: OwnedWork, successor?: string): Promise<void> {
    const free = names.filter((held) => held.status === 'held' && isFree(held, how, work));
    if (free.length === 0) return;
    const closing = free.map((held) => {
      const { promise, resolve: end } = Promise.withResolvers<void>();
      held.status = 'closing';
      held.steady = promise; // who asks for the owner from now on waits
      return { held, end };
    });
    // A request that learned that this replica is the owner gets 100 ms to lock the table. One that takes longer, such as one
    // with a long body, is refused.
    if (how !== 'in any case') await untilPassed(this.#deps.clock, 100);
    for (let from = 0; from < closing.length; from += handOversAtOnce) {
      const some = closing.slice(from, from + handOversAtOnce);
      await Promise.all(some.map(({ held, end }) => this.#endAndRelease(held, how, work, successor).then(end)));
    }
  }

  async #endAndRelease(held: HeldName, how: HandOver, work: OwnedWork, successor?: string): Promise<void> {
    held.status = 'leaving';
    const outcome = await this.#endWork(held.table, work);
    const isKept = outcome === 'busy' || (outcome === 'late' && how === 'if idle');
    if (isKept && how !== 'in any case') {
      held.status = 'held';
      held.sinceMs = this.#deps.monotonicMs(); // each attempt holds up the writes to the table
    } else await this.#release(held, outcome === 'settled', successor);
  }

  async #endWork(table: TableRef, work: OwnedWork): Promise<'settled' | 'unsettled' | 'busy' | 'late'> {
    const { clock, logger } = this.#deps;
    const late = new AbortController();
    const givenUp = Promise.withResolvers<'busy'>();
    // An attempt waits this long for what has a lock of the table. Then the name stays here, except at the end of the
    // process.
    const cancelLate = clock.schedule(1_000, () => late.abort(writerMoved(table)));
    // Whatever else it waits for, it is given up then: what waits for the name must not wait for ever.
    const cancelGivenUp = clock.schedule(3_000, () => givenUp.resolve('busy'));
    try {
      return await Promise.race([work.handOver(table, late.signal), givenUp.promise]);
    } catch (error) {
      if (late.signal.aborted) return 'late';
      logger.warn({ table: showTable(table), error }, 'a table could not be handed over in order');
      return 'unsettled';
    } finally {
      cancelLate();
      cancelGivenUp();
    }
  }

  async #release(held: HeldName, isSettled: boolean, successor?: string): Promise<void> {
    const { catalog, names, logger } = this.#deps;
    const { table } = held;
    if (this.#held.get(keyOf(table)) !== held) return; // lost meanwhile, and perhaps claimed again
    const epoch = names.epochOf(table);
    this.#held.delete(keyOf(table));
    names.remove(table);
    if (epoch === undefined) return;
    const released = catalog.releaseName({ ref: table, epoch }, names.replica, isSettled, successor);
    await released.catch((error: unknown) => {
      logger.warn(
        { table: showTable(table), error },
        'a table was not released; this replica stays its owner in the catalog',
      );
    });
  }
}

function isFree({ table, works }: HeldName, how: HandOver, work: OwnedWork): boolean {
  switch (how) {
    case 'if idle':
      return works === 0 && work.isIdle(table);
    case 'if not busy':
      return works === 0;
    case 'in any case':
      return true;
  }
}
