import type { Replica } from '../catalog/replica-port.ts';
import type { Logger } from '../telemetry/logger.ts';

interface SharedAddressParts {
  readonly replica: string;
  readonly logger: Pick<Logger, 'error'>;
  /** The lease of a predecessor on the same address that died is over by then. */
  readonly leaseMs: number;
}

/**
 * Notices another living replica with the address of this one: what is sent to either of them may reach the other, which refuses it.
 * Each such replica is named once.
 */
export class SharedAddress {
  readonly #parts: SharedAddressParts;
  /** By id, since when it is known. Only of living replicas. */
  #seen: ReadonlyMap<string, { readonly sinceMs: number; readonly isNamed: boolean }> = new Map();

  constructor(parts: SharedAddressParts) {
    this.#parts = parts;
  }

  look(address: string, replicas: readonly Replica[], nowMs: number): void {
    const { replica, leaseMs, logger } = this.#parts;
    const origin = originOf(address);
    const others = replicas.filter(
      (each) => each.id !== replica && !each.isLeaving && originOf(each.address) === origin,
    );
    const seen = new Map(others.map(({ id }) => [id, this.#seen.get(id) ?? { sinceMs: nowMs, isNamed: false }]));
    for (const [id, { sinceMs, isNamed }] of seen) {
      if (isNamed || nowMs - sinceMs <= leaseMs) continue;
      seen.set(id, { sinceMs, isNamed: true });
      logger.error(
        { address, replica, otherReplica: id },
        'another living replica has the address of this one, so that requests for the tables of either are refused: each needs an --advertise of its own',
      );
    }
    this.#seen = seen;
  }
}

const originOf = (address: string): string => URL.parse(address)?.origin ?? address;
