import { LRUCache } from 'lru-cache';
import type { Logger } from '../../telemetry/logger.ts';

/** What the log says of another replica. */
interface Peer {
  readonly id: string;
  readonly address: string;
}

/** Says once of each other replica that it is not reached, and why, until it is heard again. */
export class LostPeers {
  readonly #logger: Pick<Logger, 'info' | 'warn'>;
  /** By address, which a replica keeps that is started again. */
  // More than there are replicas. One that is forgotten is named again.
  readonly #lost = new LRUCache<string, true>({ max: 1_000 });

  constructor(logger: Pick<Logger, 'info' | 'warn'>) {
    this.#logger = logger;
  }

  lost({ id, address }: Peer, error: unknown): void {
    if (this.#lost.has(address)) return;
    this.#lost.set(address, true);
    this.#logger.warn({ replica: id, address, error }, 'another replica is not reached, or has broken off its answer');
  }

  heard({ id, address }: Peer): void {
    if (!this.#lost.delete(address)) return;
    this.#logger.info({ replica: id, address }, 'another replica is reached again');
  }
}
